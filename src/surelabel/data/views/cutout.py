"""Cutout, the last step of the strong view."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Cutout:
    """Paint a grey square around a uniformly drawn centre.

    As in the reference policy, the start of the square is clipped at the border, and its end is
    counted from there and included: it covers size + 1 pixels, except at the far border.
    """

    size: int | None = None  # None: half of the shorter side, which is 16 of 32
    fill: int = 127
    draws: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if (self.size is not None and self.size < 0) or not 0 <= self.fill <= 255:
            raise UserError(f"{self} is not possible: size must be 0 or more and fill from 0 to 255")

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W], u [B, 2]: the horizontal and vertical position of the centre."""
        height, width = images.shape[2:]
        size = min(height, width) // 2 if self.size is None else self.size
        # Products of 0 and 1: boolean operations and masked_fill take several times as long.
        columns = _covered(u[:, :1], width, size).to(images.dtype)
        rows = _covered(u[:, 1:], height, size).to(images.dtype)
        covered = (rows[:, :, None] * columns[:, None])[:, None]
        return (images * (1 - covered)).add_(covered * self.fill)


def _covered(u: Tensor, side: int, size: int) -> Tensor:
    """Which pixels along this axis the square covers [B, side]."""
    start = (u * side - size / 2).clamp(min=0).floor()
    place = torch.arange(side, device=u.device)
    return (place >= start) & (place <= start + size)
