"""Pillow's enhancements with one factor per image: images [n, C, H, W] uint8, factor [n] float32.

Each blends the image with the base named in its docstring: a factor of 0 gives the base, 1 the
image, and more than 1 extrapolates. Blending is in float32 and truncates, as in Pillow; a Pillow
compiled with fused multiply-add may be one grey level off. C is 1 (Pillow's mode L) or 3 (RGB).
"""

import torch
from torch import Tensor


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with black."""
    return (images * factor[:, None, None, None]).clamp_(max=255).to(torch.uint8)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the rounded mean grey."""
    mean = luma(images).mean((1, 2, 3), keepdim=True, dtype=torch.float64)
    return blend((mean + 0.5).floor().float(), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image; a single channel does not change."""
    return images if images.shape[1] == 1 else blend(luma(images), images, factor)


def blend(base: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """Blend `base` with the images."""
    return (images - base).mul_(factor[:, None, None, None]).add_(base).clamp_(0, 255).to(torch.uint8)


def luma(images: Tensor) -> Tensor:
    """Pillow's 16-bit fixed-point luma [n, 1, H, W]; sums below 2^24 are exact in float32."""
    if images.shape[1] == 1:
        return images.float()
    red, green, blue = images.float()[:, :, None].unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768).mul_(2**-16).floor_()
