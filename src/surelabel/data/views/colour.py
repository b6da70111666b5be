"""RandAugment's colour operations, each equal to Pillow's.

All take images [n, C, H, W] uint8 and level [n] in 1..9, and return images. C is 1 (Pillow's mode
L) or 3 (RGB).
"""

import torch
from torch import Tensor

from surelabel.data.views import enhance


def auto_contrast(images: Tensor, level: Tensor) -> Tensor:
    """Stretch each channel to 0..255; a constant channel does not change."""
    low, high = images.amin((2, 3), keepdim=True).double(), images.amax((2, 3), keepdim=True).double()
    # A tensor of 255: torch divides a number by a tensor via its reciprocal, which rounds twice.
    scale = torch.where(high > low, torch.full_like(low, 255) / (high - low), 1.0)
    offset = torch.where(high > low, -low * scale, 0.0)
    return (images * scale).add_(offset).to(torch.uint8)


def equalize(images: Tensor, level: Tensor) -> Tensor:
    """`equalized`, whatever the level."""
    return equalized(images)


def equalized(images: Tensor) -> Tensor:
    """Flatten the histogram of each channel by a lookup table of its 256 values."""
    values = images.flatten(2).flatten(0, 1).long()
    channel = torch.arange(len(values), device=images.device)[:, None]
    counts = torch.bincount((values + 256 * channel).flatten(), minlength=256 * len(values)).view(-1, 256)
    brightest = counts.gather(1, values.amax(1, keepdim=True))
    step = (values.shape[1] - brightest) // 255
    below = counts.cumsum(1) - counts
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return table.to(torch.uint8).gather(1, values).view_as(images)


def posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keep the highest 4 + floor(0.4 level) bits."""
    dropped = 4 - level * 4 // 10
    return images & (256 - 2**dropped).to(torch.uint8)[:, None, None, None]


def solarize(images: Tensor, level: Tensor) -> Tensor:
    """Invert the values from 256 - floor(25.6 level) on."""
    return invert_from(images, (256 - level * 256 // 10).to(torch.uint8)[:, None, None, None])


def invert_from(images: Tensor, threshold: Tensor | int) -> Tensor:
    """Invert the values from the threshold on."""
    return images ^ ((images >= threshold).to(torch.uint8) * 255)


def brightness(images: Tensor, level: Tensor) -> Tensor:
    """Blend towards black."""
    return enhance.brightness(images, _factor(level))


def colour(images: Tensor, level: Tensor) -> Tensor:
    """Blend towards grey; a single channel does not change."""
    return enhance.saturation(images, _factor(level))


def contrast(images: Tensor, level: Tensor) -> Tensor:
    """Blend towards the rounded mean grey."""
    return enhance.contrast(images, _factor(level))


def sharpness(images: Tensor, level: Tensor) -> Tensor:
    """Blend towards the image smoothed by a 3 x 3 kernel of ones with 5 in the middle.

    The border is not smoothed.
    """
    if min(images.shape[2:]) < 3:
        return images
    smooth = images.float()
    rows = smooth[:, :, :-2] + smooth[:, :, 1:-1] + smooth[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * smooth[:, :, 1:-1, 1:-1]
    smooth[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).floor()
    return enhance.blend(smooth, images, _factor(level))


def _factor(level: Tensor) -> Tensor:
    """0.05 + 0.9 level / 10, rounded to float32 only at the end, as for Pillow."""
    return (0.05 + 0.9 * level.double() / 10).float()
