"""Pillow's enhancements, each image by a factor of its own: images [n, C, H, W] uint8, factor [n] float32 -> images.

A factor of 1 changes nothing, one below goes towards the plain image that the function names, one above away from it.
They blend in float32 and cut the fraction off, as Pillow does; a Pillow compiled with fused multiply-add may be one
grey level off. C is 1 (Pillow's mode L) or 3 (RGB).
"""

import torch
from torch import Tensor


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """From black."""
    return (images * factor[:, None, None, None]).clamp_(max=255).to(torch.uint8)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """From the mean grey, rounded."""
    mean = luma(images).mean((1, 2, 3), keepdim=True, dtype=torch.float64)
    return blend((mean + 0.5).floor().float(), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """From grey; one channel has no colour to lose."""
    return images if images.shape[1] == 1 else blend(luma(images), images, factor)


def blend(base: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """From `base` towards the images and, with a factor above 1, beyond."""
    return (images - base).mul_(factor[:, None, None, None]).add_(base).clamp_(0, 255).to(torch.uint8)


def luma(images: Tensor) -> Tensor:
    """Pillow's luma, 16-bit fixed point [n, 1, H, W]; its sums stay below 2^24 and are thus exact in float32."""
    if images.shape[1] == 1:
        return images.float()
    red, green, blue = images.float()[:, :, None].unbind(1)
    return (19595 * red + 38470 * green + 7471 * blue + 32768).mul_(2**-16).floor_()
