"""Hue shift, equal to Pillow's in mode HSV, which stores hue and saturation in one byte each.

A 255th of a turn is up to 6 grey levels. Exact arithmetic would differ by up to three of these:
hue and shift are truncated to bytes, and bytes wrap around at 256.
"""

from functools import lru_cache

import torch
from torch import Tensor

_ROW = 6 * 256  # table row of one chroma: 6 sectors of up to 255 steps, from -255


def shift_hue(images: Tensor, share: Tensor) -> Tensor:
    """images [n, C, H, W] uint8, share [n] of a full turn; a single channel does not change."""
    if images.shape[1] == 1:
        return images
    shift = (share.double() * 255).long().to(torch.uint8)[:, None, None]  # negative shifts wrap around at 256
    red, green, blue = images.int().unbind(1)
    value = red.maximum(green).maximum(blue)
    chroma = value - red.minimum(green).minimum(blue)
    # Products with 0 and 1: torch.where takes several times as long.
    step = 4 * chroma + red - green
    step += (green == value).int() * (2 * chroma + blue - red - step)
    step += (red == value).int() * (green - blue - step)
    step += chroma * _ROW + 256
    hue = _hues(images.device).index_select(0, step.flatten()).view_as(step) + shift
    saturation = (chroma / value.clamp(min=1)).mul_(255).floor_().div_(255)
    missing = _missing(images.device).index_select(1, hue.flatten().int()).view(3, *hue.shape)
    colours = missing.mul_(saturation).neg_().add_(1).mul_(value).add_(0.5)
    return colours.to(torch.uint8).transpose(0, 1).contiguous()


@lru_cache(maxsize=2)
def _hues(device: torch.device) -> Tensor:
    """The hue byte for each chroma and step along the wheel [256 x 1536], rounded as in Pillow."""
    chroma, step = torch.arange(256).clamp(min=1)[:, None], torch.arange(_ROW) - 256
    primary = (step / (2 * chroma)).round()
    beyond = step - 2 * primary * chroma
    middle = (chroma - beyond.abs()).float() / chroma.float()
    sixths = (2 * primary.double() + beyond.sign() * (1 - middle.double())).float()
    turn = (sixths.double() / 6 + 1).fmod(1).float()
    return (turn.double() * 255).to(torch.uint8).flatten().to(device)


@lru_cache(maxsize=2)
def _missing(device: torch.device) -> Tensor:
    """What a saturated colour of each hue lacks of red, green and blue [3, 256], from 0 to 1."""
    sixths = torch.arange(256, dtype=torch.float64) * 6 / 255
    away = (torch.tensor([5, 3, 1])[:, None] + sixths) % 6
    return away.minimum(4 - away).clamp(0, 1).float().to(device)
