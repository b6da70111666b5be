"""What is handed from part to part. Shape letters: B labelled batch, U = µB unlabelled batch, N samples, K classes,
D features, M weight samples, and C, H, W of an image: other samples have other axes in their place.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from surelabel.utils.distributed import ALONE, World
from surelabel.utils.rng import generator


@dataclass(frozen=True)
class Task:
    """What a network has to know of the data: its samples' shape, its classes, and how to normalise a channel."""

    shape: tuple[int, ...]
    classes: tuple[str, ...]
    dtype: str  # of the stored samples: uint8 or float32
    offset: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Which step of which run this is, and so its random numbers."""

    seed: int = 0
    step: int = 0
    world: World = ALONE

    def draws(self, purpose: str) -> np.random.Generator:
        """Random numbers for this purpose in this step."""
        return generator(self.seed, purpose, self.step)


@dataclass(frozen=True)
class Batch(Step):
    """One step's images, already turned into views. Without an unlabelled pool, `weak` and `strong` are None.

    `hidden` holds the true classes of the unlabelled images, -1 where unknown. It serves the purity figure alone:
    no loss may read it.
    """

    labelled: Tensor  # [B, C, H, W]
    labels: Tensor  # [B]
    weak: Tensor | None = None  # [U, C, H, W]
    strong: Tensor | None = None  # [U, C, H, W]
    hidden: Tensor | None = None  # [U]

    @property
    def n_samples(self) -> int:
        """How many samples there are, however many views each has."""
        return len(self.labels) + self.unlabelled

    @property
    def unlabelled(self) -> int:
        return 0 if self.weak is None else len(self.weak)


@dataclass(frozen=True)
class Crops(Step):
    """One step's images for PAWS: views of a labelled support set of S images, and large and small views of U others.

    Views follow one another: first all images' first view, then all images' second.
    """

    support: Tensor  # [V S, C, H, W]
    labels: Tensor  # [V S]
    large: Tensor  # [2 U, C, H, W]
    small: Tensor | None  # [n U, C, h, w]
    hidden: Tensor  # [U], for the purity figure alone
    support_images: int  # S

    @property
    def n_samples(self) -> int:
        """How many samples there are, however many views each has."""
        return self.support_images + len(self.hidden)
