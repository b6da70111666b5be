"""The task and the batches that loaders hand to methods.

Letters of shapes: B labelled batch, U = µB unlabelled batch, N samples, K classes, D features,
M weight samples; C, H, W for an image, which other samples replace by axes of their own.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from surelabel.utils.distributed import ALONE, World
from surelabel.utils.rng import generator


@dataclass(frozen=True)
class Task:
    """What a network needs to know about the data; offset and scale normalise each channel."""

    shape: tuple[int, ...]
    classes: tuple[str, ...]
    dtype: str  # of the stored samples: uint8 or float32
    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise a `ValueError` if no data can be like this."""
        if not self.shape or min(self.shape) < 1 or not self.classes:
            raise ValueError(f"there are no samples of shape {list(self.shape)} with {len(self.classes)} classes")
        if self.dtype not in ("uint8", "float32") or {len(self.offset), len(self.scale)} != {self.shape[0]}:
            raise ValueError(f"{self.shape[0]} channels of {self.dtype} are not normalised like this")


@dataclass(frozen=True, kw_only=True)
class Step:
    """The step of a run, which determines its random numbers."""

    seed: int = 0
    step: int = 0
    world: World = ALONE

    def draws(self, purpose: str) -> np.random.Generator:
        """A random generator for this purpose in this step."""
        return generator(self.seed, purpose, self.step)


@dataclass(frozen=True)
class Batch(Step):
    """The augmented images of one step. Without an unlabelled pool, `weak` and `strong` are None.

    `hidden` holds the true classes of the unlabelled images, -1 if unknown. It is for the purity
    metric only: no loss may read it.
    """

    labelled: Tensor  # [B, C, H, W]
    labels: Tensor  # [B]
    weak: Tensor | None = None  # [U, C, H, W]
    strong: Tensor | None = None  # [U, C, H, W]
    hidden: Tensor | None = None  # [U]
    positions: Tensor | None = None  # [U], of the unlabelled images in the pool

    @property
    def n_samples(self) -> int:
        """How many samples all ranks have, however many views each has."""
        return self.world.total(len(self.labels) + self.unlabelled)

    @property
    def unlabelled(self) -> int:
        return 0 if self.weak is None else len(self.weak)


@dataclass(frozen=True)
class Crops(Step):
    """One PAWS step: views of S labelled support images, and large and small views of U others.

    The first views of all images come first, then all second views, and so on. `world` shares out the U.
    """

    support: Tensor  # [V S, C, H, W]
    labels: Tensor  # [V S]
    large: Tensor  # [2 U, C, H, W]
    small: Tensor | None  # [n U, C, h, w]
    hidden: Tensor  # [U], for the purity metric only
    support_images: int  # of all ranks

    @property
    def n_samples(self) -> int:
        """How many samples all ranks have, however many views each has."""
        return self.support_images + self.world.total(len(self.hidden))

    @property
    def world_of_support(self) -> World:
        """The ranks, which share out the support."""
        return self.world.divided(self.support_images)
