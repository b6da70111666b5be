"""RandAugment's geometric operations, equal to Pillow's: nearest neighbour, black outside."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from surelabel.data.views.pixels import take_pixels

GEOMETRIC = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
Affine = tuple[float, float, float, float, float, float]


def move(images: Tensor, operation: Tensor, level: Tensor, negative: Tensor) -> Tensor:
    """images [n, C, H, W], operation [n] into GEOMETRIC, level [n] in 1..9, negative [n] bool."""
    which = (operation * 9 + level - 1) * 2 + negative
    source = _sources(*images.shape[2:], images.device).index_select(0, which)
    inside = (source >= 0).to(images.dtype)
    return take_pixels(images, source.clamp_(min=0).long()).mul_(inside[:, None])


@lru_cache(maxsize=2)
def _sources(height: int, width: int, device: torch.device) -> Tensor:
    """Source pixels y * W + x, -1 outside, by operation, level and sign [5 x 9 x 2, H, W]."""
    return torch.stack(
        [
            _source(_map(name, sign * level, height, width), height, width)
            for name in GEOMETRIC
            for level in range(1, 10)
            for sign in (1, -1)
        ]
    ).to(device)


def _source(affine: Affine, height: int, width: int) -> Tensor:
    """Pillow's nearest neighbour [H, W] int32: 16-bit fixed-point coordinates of pixel centres."""
    a, b, c, d, e, f = affine
    fixed = [math.floor(value * 2**16 + 0.5) for value in (a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2)]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    column, row = ((by_x * x + by_y * y + start) >> 16 for by_x, by_y, start in (fixed[:3], fixed[3:]))
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    return torch.where(inside, row * width + column, -1).int()


def _map(name: str, level: int, height: int, width: int) -> Affine:
    """(a, b, c, d, e, f): output (x, y) shows input column a x + b y + c, row d x + e y + f.

    Translations are truncated to whole pixels, as in the reference policy.
    """
    share = 0.3 * level / 10
    match name:
        case "Rotate":
            cos, sin = math.cos(math.radians(3 * level)), math.sin(math.radians(3 * level))
            x, y = width / 2, height / 2
            return cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y
        case "ShearX":
            return 1, share, 0, 0, 1, 0
        case "ShearY":
            return 1, 0, 0, share, 1, 0
        case "TranslateX":
            return 1, 0, int(share * width), 0, 1, 0
        case _:
            return 1, 0, 0, 0, 1, int(share * height)
