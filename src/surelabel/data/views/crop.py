"""The weak view: a random flip and a shift by a few pixels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.pixels import take_pixels, whole_number
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class FlipCrop:
    """Flip left to right with probability 1/2, pad by reflection, and crop at random."""

    padding: int | None = None  # None: an eighth of the shorter side, which is 4 of 32
    flip: bool = True
    draws: ClassVar[int] = 3

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] of any type, u [B, 3]: flip, vertical shift, horizontal shift."""
        height, width = images.shape[2:]
        padding = min(height, width) // 8 if self.padding is None else self.padding
        if not 0 <= padding < min(height, width):
            raise UserError(
                f"a crop padding of {padding} does not fit images of {height} x {width} pixels: "
                f"choose one from 0 to {min(height, width) - 1}"
            )
        shift = whole_number(u[:, 1:], 2 * padding + 1) - padding
        rows = _reflected(torch.arange(height, device=u.device) + shift[:, :1], height)
        columns = _reflected(torch.arange(width, device=u.device) + shift[:, 1:], width)
        if self.flip:
            columns = torch.where(u[:, :1] < 0.5, width - 1 - columns, columns)
        return take_pixels(images, rows[:, :, None] * width + columns[:, None])


def _reflected(places: Tensor, size: int) -> Tensor:
    """Reflect indices outside 0 .. size - 1, without repeating the border pixels."""
    return size - 1 - (size - 1 - places.abs()).abs()
