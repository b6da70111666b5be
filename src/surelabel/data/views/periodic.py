"""The view for periodic images, such as the unit cell of a crystal."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.pixels import take_pixels, whole_number
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Periodic:
    """Uniform roll along both axes, quarter turns, and a flip along y, along x or not at all."""

    draws: ClassVar[int] = 4

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, N, N] of any type, u [B, 4]: roll along y and x, quarter turns, flip."""
        side, width = images.shape[2:]
        if side != width:
            raise UserError(
                f"the periodic view rotates by 90 degrees and needs square images, but these have {side} x {width} "
                "pixels: choose another view"
            )
        turns, flip = whole_number(u[:, 2:3], 4), whole_number(u[:, 3:], 3)
        place = torch.arange(side, device=u.device)
        down, across = _mirrored(place, flip == 0), _mirrored(place, flip == 1)
        # An odd number of quarter turns swaps the axes: source rows are then output columns.
        swapped = turns % 2 == 1
        row = _mirrored(torch.where(swapped, across, down), turns >= 2)
        column = _mirrored(torch.where(swapped, down, across), (turns == 1) | (turns == 2))
        roll = whole_number(u[:, :2], side)
        row, column = (row - roll[:, :1]) % side * side, (column - roll[:, 1:]) % side
        down, across = torch.where(swapped, column, row), torch.where(swapped, row, column)
        return take_pixels(images, down[:, :, None] + across[:, None])


def _mirrored(place: Tensor, where: Tensor) -> Tensor:
    """place [N] or [B, N], counted from the other end if `where` [B, 1] -> [B, N]."""
    return torch.where(where, place.shape[-1] - 1 - place, place)
