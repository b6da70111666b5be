"""Solarize, equalize and grey, each equal to Pillow's."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views import colour
from surelabel.data.views.enhance import luma
from surelabel.data.views.pixels import check_bytes, whole_number
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Solarize:
    """Invert values from `threshold` on; None draws it from 1 .. 256 for each image."""

    threshold: int | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 255:
            raise UserError(f"{self} is not possible: threshold must be from 0 to 255")

    @property
    def draws(self) -> int:
        return 1 if self.threshold is None else 0

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        check_bytes(images, "the view Solarize")
        drawn = 1 + whole_number(u, 256)[:, :, None, None] if self.threshold is None else self.threshold
        return colour.invert_from(images, drawn)


@dataclass(frozen=True)
class Equalize:
    """Flatten the histogram of each channel."""

    draws: ClassVar[int] = 0

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        check_bytes(images, "the view Equalize")
        return colour.equalized(images)


@dataclass(frozen=True)
class Grey:
    """Pillow's luma in every channel."""

    draws: ClassVar[int] = 0

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        check_bytes(images, "the view Grey")
        return luma(images).to(torch.uint8).repeat(1, images.shape[1], 1, 1)
