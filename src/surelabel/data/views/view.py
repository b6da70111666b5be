"""The protocol of views, and two simple ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor


class View(Protocol):
    """A pure function of samples and uniform random numbers.

    Row p of the result depends only on row p of both.
    """

    @property
    def draws(self) -> int:
        """How many U[0, 1) numbers each sample needs."""

    def __call__(self, samples: Tensor, u: Tensor, /) -> Tensor:
        """samples (images are [B, C, H, W]), u [B, draws] float32 on the same device -> samples.

        Number, channels and type stay the same; a cropping view may change height and width.
        """


@dataclass(frozen=True)
class Identity:
    """The unchanged images."""

    draws: ClassVar[int] = 0

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        return images


@dataclass(frozen=True)
class Chain:
    """Several views one after another, each with its own draws."""

    parts: Sequence[View]

    @property
    def draws(self) -> int:
        return sum(part.draws for part in self.parts)

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        columns = torch.split(u, [part.draws for part in self.parts], dim=1)
        for part, own in zip(self.parts, columns, strict=True):
            images = part(images, own)
        return images
