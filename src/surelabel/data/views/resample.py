"""Weighted means along both axes, with weights of each image's own: what resizing and blurring have in common."""

import torch
from torch import Tensor


def resample(images: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """images [B, C, H, W] -> [B, C, h, w] of the same type, each axis by its weights [B, h, H] and [B, w, W] float64.

    Weights are 0 or more, and are divided by their sum. Bytes are rounded after each axis, as Pillow does.
    """
    # With the channels in the third place both axes are plain products, and the copies are of the images' own type.
    lines = images.transpose(1, 2).contiguous()
    if images.is_floating_point():
        # In float64 what the order of summation changes is far below what the images can hold.
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

    Times bytes, all their sums are exact in float32: neither the batch nor the machine can change a pixel. The running
    sums are rounded instead of the weights, so that the errors of neighbours cancel.
    """
    running = weights.cumsum(2)
    running = running.mul_(2**16 / running[:, :, -1:]).round_().float()
    return running.diff(dim=2, prepend=torch.zeros_like(running[:, :, :1])).mul_(2**-16)


def _rounded(values: Tensor) -> Tensor:
    return values.add_(0.5).floor_()
