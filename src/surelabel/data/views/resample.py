"""Weighted means along both axes with weights per image, for resizing and blurring."""

import torch
from torch import Tensor


def resample(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """images [B, C, H, W], float64 weights [B, h, H] and [B, w, W] -> images [B, C, h, w].

    Weights are 0 or more, and are normalised to sum 1. The type of the images stays the same;
    bytes are rounded after each axis, as in Pillow.
    """
    # With channels third, both axes are plain matrix products, and copies keep the images' type.
    lines = images.transpose(1, 2).contiguous()
    if images.is_floating_point():
        # In float64 the order of summation does not matter at the precision of the images.
        down, across = (weights / weights.sum(2, keepdim=True) for weights in (down, across))
        new = torch.bmm(down, _along_width(lines.double(), across))
    else:
        wide = _rounded(_along_width(lines.float(), _sixteen_bits(across)))
        new = _rounded(torch.bmm(_sixteen_bits(down), wide))
    shape = len(images), down.shape[1], images.shape[1], across.shape[1]
    return new.to(images.dtype).view(shape).transpose(1, 2).contiguous()


def _along_width(lines: Tensor, weights: Tensor) -> Tensor:
    """[B, H, C, W], [B, w, W] -> [B, H, C w]."""
    batch, height, channels, _ = lines.shape
    return torch.bmm(lines.flatten(1, 2), weights.mT).view(batch, height, channels * weights.shape[1])


def _sixteen_bits(weights: Tensor) -> Tensor:
    """Multiples of 2^-16 whose sum is exactly 1 [B, new, old] float32.

    Sums of their products with bytes are exact in float32, so that a pixel depends neither on the
    batch nor on the machine. Cumulative sums are rounded, not weights, so that errors cancel.
    """
    running = weights.cumsum(2)
    running = running.mul_(2**16 / running[:, :, -1:]).round_().float()
    return running.diff(dim=2, prepend=torch.zeros_like(running[:, :, :1])).mul_(2**-16)


def _rounded(values: Tensor) -> Tensor:
    return values.add_(0.5).floor_()
