"""Batches of augmented views, a function of the seed and the step only."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.batch import Batch, Step
from surelabel.data.source import Source
from surelabel.data.views import View
from surelabel.utils.devices import augmentation_device
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.rng import sample_order, uniforms


@dataclass(frozen=True)
class Loader:
    """Draws the labelled and unlabelled images of a step, and augments them.

    The pool is every image of `source`, including the labelled ones. Without `weak_view` and
    `strong_view`, batches have no unlabelled images.
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
    world: World = ALONE

    def __call__(self, step: int) -> Batch:
        """The batch of this step, on this rank."""
        here = Step(seed=self.seed, step=step, world=self.world.divided(self.batch))
        drawn = self.indices(step)
        images = [fetch(self.source, index, self.device) for index in drawn]
        labels = [torch.from_numpy(self.source.labels[index]).to(self.device) for index in drawn]
        prefetch_step(self.source, self.indices, step + 1)
        labelled = augment(images[0], self.labelled_view, "labelled view", here).to(self.device)
        if self.weak_view is None or self.strong_view is None:
            return Batch(labelled, labels[0], **vars(here))
        return Batch(
            labelled,
            labels[0],
            augment(images[1], self.weak_view, "weak view", here).to(self.device),
            augment(images[1], self.strong_view, "strong view", here).to(self.device),
            labels[1],
            torch.from_numpy(drawn[1]).to(self.device),
            **vars(here),
        )

    def indices(self, step: int) -> list[NDArray[np.int64]]:
        """The labelled and, if there are views for them, unlabelled samples of this rank."""
        order = sample_order(self.seed, "labelled order", step, self.batch, len(self.labelled))
        world, pool = self.world.divided(self.batch), self.batch * self.ratio
        labelled = self.labelled[order[world.rows(self.batch)]]
        if self.weak_view is None or self.strong_view is None:
            return [labelled]
        return [labelled, pool_order(self.source, self.seed, step, pool)[world.rows(pool)]]


def pool_order(source: Source, seed: int, step: int, batch: int) -> NDArray[np.int64]:
    """The unlabelled samples of a step."""
    return sample_order(seed, "unlabelled order", step, batch, len(source), source.block_size)


def prefetch_step(source: Source, indices: Callable[[int], Iterable[NDArray[np.int64]]], step: int) -> None:
    """Have a source that reads from disk begin with the samples of this step."""
    if source.block_size > 1:
        for index in filter(len, indices(step)):
            source.prefetch(index)


def fetch(source: Source, index: NDArray[np.int64], device: torch.device) -> Tensor:
    """These images, on the device that augments for this training device."""
    return torch.from_numpy(source.samples(index)).to(augmentation_device(device))


def augment(images: Tensor, view: View, purpose: str, here: Step, times: int = 1) -> Tensor:
    """`times` augmented views of each image: all first views, then all second views.

    `images` are those of this rank. Random numbers belong to rows of the global batch, so that
    they do not depend on the world size.
    """
    rows = here.world.total(len(images))
    draws = uniforms(here.seed, purpose, here.step, times * rows, view.draws).reshape(times, rows, view.draws)
    own = np.ascontiguousarray(draws[:, here.world.rows(rows)]).reshape(times * len(images), view.draws)
    repeated = images if times == 1 else images.repeat(times, *[1] * (images.ndim - 1))
    return view(repeated, torch.from_numpy(own).to(images.device))
