"""Layers that the backbones share."""

import torch
from torch import Tensor, nn


def norm(channels: int, momentum: float | None) -> nn.Module:
    """BatchNorm; without a momentum, GroupNorm with groups of 8 channels if possible, else one."""
    if momentum is not None:
        return nn.BatchNorm2d(channels, momentum=momentum)
    return nn.GroupNorm(channels // 8 if channels % 8 == 0 else 1, channels)


class Conv(nn.Conv2d):
    """A convolution without bias; the output has the size of the input divided by the stride.

    `padding` is "zeros", or "circular" for periodic images.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: str = "zeros") -> None:
        border = kernel // 2
        self.wrap = border if padding == "circular" else 0
        super().__init__(inputs, outputs, kernel, stride, padding=0 if self.wrap else border, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(wrapped(images, self.wrap))


class MaxPool(nn.MaxPool2d):
    """3×3 max pooling with stride 2; `padding` is "zeros" (none count) or "circular"."""

    def __init__(self, padding: str = "zeros") -> None:
        self.wrap = 1 if padding == "circular" else 0
        super().__init__(3, 2, padding=1 - self.wrap)

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = super().forward(wrapped(images, self.wrap))
        return pooled


def pooled(images: Tensor) -> Tensor:
    """The mean over the pixels: [N, C, H, W] -> [N, C]."""
    # Over dims (2, 3), the gradient would lose the channels_last memory format, which slows the layers before.
    return images.permute(0, 2, 3, 1).flatten(1, 2).mean(1)


def wrapped(images: Tensor, border: int) -> Tensor:
    """Images [N, C, H, W], padded circularly by `border` pixels."""
    if border == 0:
        return images
    # F.pad(mode="circular") loses the channels_last memory format, which slows the convolution.
    for axis in (2, 3):
        size = images.shape[axis]
        last, first = images.narrow(axis, size - border, border), images.narrow(axis, 0, border)
        images = torch.cat([last, images, first], dim=axis)
    return images
