"""Batches of views: a function of the run's seed and the step, of nothing else."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.source import Source
from surelabel.data.views import View
from surelabel.randomness import sample_order, uniforms
from surelabel.types import Batch


@dataclass(frozen=True)
class Loader:
    """Draws the labelled and unlabelled images of a step and turns them into views on the training device.

    The pool is every image of `source`, the labelled ones included. Without `weak` and `strong` views a batch has no
    unlabelled part.
    """

    source: Source
    labelled: NDArray[np.int64]  # indices into the source
    seed: int
    batch: int  # B
    ratio: int  # µ
    device: torch.device
    labelled_view: View
    weak_view: View | None = None
    strong_view: View | None = None

    def __call__(self, step: int) -> Batch:
        """The batch of this step."""
        index = self.labelled[sample_order(self.seed, "labelled order", step, self.batch, len(self.labelled))]
        labels = torch.from_numpy(self.source.labels[index]).to(self.device)
        labelled = seen(fetch(self.source, index, self.device), self.labelled_view, self.seed, "labelled view", step)
        if self.weak_view is None or self.strong_view is None:
            return Batch(labelled, labels, seed=self.seed, step=step)
        index = sample_order(self.seed, "unlabelled order", step, self.batch * self.ratio, len(self.source))
        images = fetch(self.source, index, self.device)
        return Batch(
            labelled,
            labels,
            seen(images, self.weak_view, self.seed, "weak view", step),
            seen(images, self.strong_view, self.seed, "strong view", step),
            torch.from_numpy(self.source.labels[index]).to(self.device),
            seed=self.seed,
            step=step,
        )


def fetch(source: Source, index: NDArray[np.int64], device: torch.device) -> Tensor:
    """These images on the training device."""
    return torch.from_numpy(source.images(index)).to(device)


def seen(images: Tensor, view: View, seed: int, purpose: str, step: int) -> Tensor:
    """The images as this view shows them in this step."""
    draws = torch.from_numpy(uniforms(seed, purpose, step, len(images), view.draws)).to(images.device)
    return view(images, draws)
