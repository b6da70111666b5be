"""Batches for PAWS: a class-balanced support set, and large and small unlabelled views."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.batch import Crops, Step
from surelabel.data.loader import augment, fetch, pool_order, prefetch_step
from surelabel.data.source import Source
from surelabel.data.views import View
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.rng import generator, sample_order


@dataclass(frozen=True)
class MultiCropLoader:
    """Draws the images of a step, and augments them.

    The pool is every image of `source`, including the labelled ones.
    """

    source: Source
    labelled: NDArray[np.int64]  # indices into the source
    seed: int
    batch: int  # U
    per_class: int
    device: torch.device
    support_view: View
    large_view: View
    small_view: View
    classes: int | None = None  # per support set; None: all
    support_views: int = 2
    small_crops: int = 6
    world: World = ALONE

    def __call__(self, step: int) -> Crops:
        """The batch of this step, on this rank."""
        of_support, here = (Step(seed=self.seed, step=step, world=world) for world in self._worlds)
        index, pool = self._indices(step)
        support, images = (fetch(self.source, drawn, self.device) for drawn in (index, pool))
        prefetch_step(self.source, self._indices, step + 1)
        labels = np.tile(self.source.labels[index], self.support_views)
        return Crops(
            augment(support, self.support_view, "support view", of_support, self.support_views).to(self.device),
            torch.from_numpy(labels).to(self.device),
            augment(images, self.large_view, "large view", here, 2).to(self.device),
            augment(images, self.small_view, "small view", here, self.small_crops).to(self.device)
            if self.small_crops
            else None,
            torch.from_numpy(self.source.labels[pool]).to(self.device),
            self.support,
            **vars(here),
        )

    def _indices(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The support and the unlabelled samples of a step on this rank."""
        of_support, of_pool = self._worlds
        support, pool = self._support(step), pool_order(self.source, self.seed, step, self.batch)
        return support[of_support.rows(self.support)], pool[of_pool.rows(self.batch)]

    @property
    def _worlds(self) -> tuple[World, World]:
        """The ranks, which share out the support and the unlabelled samples."""
        return self.world.divided(self.support), self.world.divided(self.batch)

    def _support(self, step: int) -> NDArray[np.int64]:
        """`per_class` labelled images of each drawn class, with replacement if it has fewer."""
        order = generator(self.seed, "support classes", step).permutation(len(self._members))
        chosen = np.sort(order[: self._support_classes])
        return np.concatenate([self._of_class(int(number), step) for number in chosen])

    def _of_class(self, number: int, step: int) -> NDArray[np.int64]:
        members, purpose = self._members[number], f"support of class {number}"
        if len(members) < self.per_class:
            return generator(self.seed, purpose, step).choice(members, self.per_class)
        return members[sample_order(self.seed, purpose, step, self.per_class, len(members))]

    @property
    def support(self) -> int:
        """The number of labelled images of a step, over all ranks."""
        return self._support_classes * self.per_class

    @property
    def _support_classes(self) -> int:
        return min(self.classes or len(self._members), len(self._members))

    @cached_property
    def _members(self) -> list[NDArray[np.int64]]:
        """The labelled samples of each class, leaving out classes without any."""
        labels = self.source.labels[self.labelled]
        return [self.labelled[labels == number] for number in np.unique(labels)]
