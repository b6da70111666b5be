"""What a view is, and the two that only pass samples on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor


class View(Protocol):
    """A pure function of samples and uniform draws, in which row p of the result depends on row p of both alone."""

    @property
    def draws(self) -> int:
        """How many U[0, 1) numbers each sample takes."""

    def __call__(self, samples: Tensor, u: Tensor, /) -> Tensor:
        """samples, such as images [B, C, H, W], u [B, draws] float32 on the same device -> samples of the same number,
        channels and type; a view that crops may change height and width, to the same for all of them."""


@dataclass(frozen=True)
class Identity:
    """The images as they are."""

    draws: ClassVar[int] = 0

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        return images


@dataclass(frozen=True)
class Chain:
    """One view after another, each with draws of its own."""

    parts: Sequence[View]

    @property
    def draws(self) -> int:
        return sum(part.draws for part in self.parts)

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        columns = torch.split(u, [part.draws for part in self.parts], dim=1)
        for part, own in zip(self.parts, columns, strict=True):
            images = part(images, own)
        return images
