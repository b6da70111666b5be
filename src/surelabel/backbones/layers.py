"""What the backbones share."""

from torch import Tensor, nn
from torch.nn import functional as F


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
            images = F.pad(images, [self.wrap] * 4, mode="circular")
        return super().forward(images)
