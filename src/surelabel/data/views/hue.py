"""Turning the colour wheel, equal to Pillow's way through the mode HSV, which keeps hue and saturation in a byte each.

A 255th of a turn is up to 6 grey levels. Unrounded arithmetic is up to three of them away: the hue and the shift are
cut to bytes, and bytes go round at 256.
"""

from functools import lru_cache

import torch
from torch import Tensor

_ROW = 6 * 256  # a table row for each chroma, holding the wheel's 6 sectors of up to 255 steps, counted from -255


def shift_hue(images: Tensor, share: Tensor) -> Tensor:
    """images [n, C, H, W] uint8, share [n] of a whole turn, cut to a 255th -> images; one channel has no hue."""
    if images.shape[1] == 1:
        return images
    shift = (share.double() * 255).long().to(torch.uint8)[:, None, None]  # backwards modulo 256, as bytes go round
    red, green, blue = images.int().unbind(1)
    value = red.maximum(green).maximum(blue)
    chroma = value - red.minimum(green).minimum(blue)
    # Products with 0 and 1, because torch.where takes several times as long.
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
    """The byte of hue for every chroma and step along the wheel [256 x 1536] uint8, rounded wherever Pillow rounds."""
    chroma, step = torch.arange(256).clamp(min=1)[:, None], torch.arange(_ROW) - 256
    primary = (step / (2 * chroma)).round()
    beyond = step - 2 * primary * chroma
    middle = (chroma - beyond.abs()).float() / chroma.float()
    sixths = (2 * primary.double() + beyond.sign() * (1 - middle.double())).float()
    turn = (sixths.double() / 6 + 1).fmod(1).float()
    return (turn.double() * 255).to(torch.uint8).flatten().to(device)


@lru_cache(maxsize=2)
def _missing(device: torch.device) -> Tensor:
    """How much of red, green and blue a full colour of this hue lacks [3, 256] float32, from 0 to 1."""
    sixths = torch.arange(256, dtype=torch.float64) * 6 / 255
    away = (torch.tensor([5, 3, 1])[:, None] + sixths) % 6
    return away.minimum(4 - away).clamp(0, 1).float().to(device)
