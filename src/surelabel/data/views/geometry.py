"""RandAugment's five geometric operations as one: an affine map, nearest neighbour, black outside, as Pillow's."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from surelabel.data.views.pixels import take_pixels

GEOMETRIC = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
_ONE = 1 << 16  # Pillow maps coordinates in 16-bit fixed point; so does this, to pick the same pixels


def move(images: Tensor, operation: Tensor, level: Tensor, negative: Tensor) -> Tensor:
    """images [n, C, H, W]; operation [n], a place in GEOMETRIC; level [n] in 1..9; negative [n] bool -> images."""
    height, width = images.shape[2:]
    maps = _maps(height, width, images.device)[operation, level - 1, negative.long()]
    y = torch.arange(height, dtype=torch.int32, device=images.device)[:, None]
    x = torch.arange(width, dtype=torch.int32, device=images.device)
    xx, xy, x0, yx, yy, y0 = maps[:, :, None, None].unbind(1)
    column = (xx * x + (xy * y + x0)) >> 16
    row = (yx * x + (yy * y + y0)) >> 16
    outside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    source = (row * width + column).masked_fill_(outside, 0).long()
    return take_pixels(images, source).masked_fill_(outside[:, None], 0)


@lru_cache(maxsize=8)
def _maps(height: int, width: int, device: torch.device) -> Tensor:
    """The maps of every operation, level and sign [5, 9, 2, 6], int32 in units of 2^-16 pixel."""
    maps = [
        [[_map(name, sign * level, height, width) for sign in (1, -1)] for level in range(1, 10)] for name in GEOMETRIC
    ]
    return torch.tensor(maps, dtype=torch.int32, device=device)


def _map(name: str, level: int, height: int, width: int) -> list[int]:
    """(a, b, c, d, e, f): output pixel (x, y) shows the input at column a x + b y + c and row d x + e y + f."""
    share = 0.3 * level / 10
    match name:
        case "Rotate":
            cos, sin = math.cos(math.radians(3 * level)), math.sin(math.radians(3 * level))
            a, b, d, e = cos, -sin, sin, cos
            c, f = width / 2 - a * width / 2 - b * height / 2, height / 2 - d * width / 2 - e * height / 2
        case "ShearX":
            a, b, c, d, e, f = 1.0, share, 0.0, 0.0, 1.0, 0.0
        case "ShearY":
            a, b, c, d, e, f = 1.0, 0.0, 0.0, share, 1.0, 0.0
        case "TranslateX":
            a, b, c, d, e, f = 1.0, 0.0, math.floor(share * width + 0.5), 0.0, 1.0, 0.0
        case _:
            a, b, c, d, e, f = 1.0, 0.0, 0.0, 0.0, 1.0, math.floor(share * height + 0.5)
    # Pixels are sampled at their centres, half a pixel from their corners.
    centred = (a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2)
    return [math.floor(value * _ONE + 0.5) for value in centred]
