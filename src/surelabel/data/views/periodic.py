"""The view for images that wrap around at their borders, as the unit cell of a crystal does."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.pixels import take_pixels, whole_number
from surelabel.errors import UserError


@dataclass(frozen=True)
class Periodic:
    """Roll on both axes, turn by quarters, then flip along y, along x or not at all, each choice uniform."""

    draws: ClassVar[int] = 4

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, N, N] of any type, u [B, 4]: roll along y, roll along x, quarter turns, flip."""
        side, width = images.shape[2:]
        if side != width:
            raise UserError(
                f"the periodic view turns images by 90 degrees and so needs square ones, "
                f"but these have {side} x {width} pixels: choose another view"
            )
        roll = whole_number(u[:, :2], side)[:, :, None, None]
        symmetry = whole_number(u[:, 2], 4) * 3 + whole_number(u[:, 3], 3)
        place = _symmetries(side, u.device)[symmetry]
        rows, columns = ((place - roll) % side).unbind(1)
        return take_pixels(images, rows * side + columns)


@lru_cache(maxsize=8)
def _symmetries(side: int, device: torch.device) -> Tensor:
    """For each of 4 turns x 3 flips, the row and the column that each pixel comes from [12, 2, side, side]."""
    place = torch.stack(torch.meshgrid(*[torch.arange(side, device=device)] * 2, indexing="ij"))
    turned = [place.rot90(turns, (1, 2)) for turns in range(4)]
    return torch.stack([flipped for image in turned for flipped in (image.flip(1), image.flip(2), image)])
