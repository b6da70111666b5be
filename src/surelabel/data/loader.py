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
        labelled = self._view(self._images(index), self.labelled_view, "labelled view", step)
        if self.weak_view is None or self.strong_view is None:
            return Batch(labelled, labels, seed=self.seed, step=step)
        index = sample_order(self.seed, "unlabelled order", step, self.batch * self.ratio, len(self.source))
        images = self._images(index)
        return Batch(
            labelled,
            labels,
            self._view(images, self.weak_view, "weak view", step),
            self._view(images, self.strong_view, "strong view", step),
            torch.from_numpy(self.source.labels[index]).to(self.device),
            self.seed,
            step,
        )

    def _images(self, index: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.source.images(index)).to(self.device)

    def _view(self, images: Tensor, view: View, purpose: str, step: int) -> Tensor:
        draws = torch.from_numpy(uniforms(self.seed, purpose, step, len(images), view.draws)).to(self.device)
        return view(images, draws)
