"""What the backbones share."""

import torch
from torch import Tensor, nn


class Conv(nn.Conv2d):
    """A convolution without bias whose output is the size of its input divided by the stride.

    `padding` says what lies beyond the border: "zeros", or "circular" for an image that wraps around.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: str = "zeros") -> None:
        border = kernel // 2
        self.wrap = border if padding == "circular" else 0
        super().__init__(inputs, outputs, kernel, stride, padding=0 if self.wrap else border, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        if self.wrap:
            # Not F.pad(mode="circular"), which loses the channels_last memory format: the convolution pays for that.
            for axis in (2, 3):
                size = images.shape[axis]
                last, first = images.narrow(axis, size - self.wrap, self.wrap), images.narrow(axis, 0, self.wrap)
                images = torch.cat([last, images, first], dim=axis)
        return super().forward(images)
