"""Wide residual networks (Zagoruyko and Komodakis, 2016), in FixMatch's version."""

from torch import Tensor, nn

from surelabel.models.backbones.layers import Conv, norm, pooled


def _activation() -> nn.LeakyReLU:
    return nn.LeakyReLU(0.1, inplace=True)


class Block(nn.Module):
    """norm - activation - conv - norm - activation - conv, added to its input.

    Where the shape changes, the shortcut is a 1×1 convolution; in the network's first block it
    branches off after the first norm and activation, in the others before them.
    """

    def __init__(
        self, inputs: int, outputs: int, stride: int, first: bool, momentum: float | None, padding: str
    ) -> None:
        super().__init__()
        self.first = first
        self.norm1 = norm(inputs, momentum)
        self.conv1 = Conv(inputs, outputs, 3, stride, padding)
        self.norm2 = norm(outputs, momentum)
        self.conv2 = Conv(outputs, outputs, 3, 1, padding)
        self.activation = _activation()
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else Conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.activation(self.norm1(x))
        branch = self.conv2(self.activation(self.norm2(self.conv1(activated))))
        shortcut = self.shortcut(activated if self.first else x)
        out: Tensor = shortcut + branch
        return out


class WideResNet(nn.Module):
    """Images [N, C, H, W] -> features [N, D = 64 · width].

    `depth` = 6n + 4 counts the convolutions; `width` multiplies the 16, 32 and 64 channels of the
    three groups.
    """

    def __init__(
        self,
        channels: int,
        depth: int,
        width: int,
        momentum: float | None,
        padding: str = "zeros",
        stem_stride: int = 1,
    ) -> None:
        super().__init__()
        self.stem = Conv(channels, 16, 3, stem_stride, padding)
        blocks: list[nn.Module] = []
        inputs = 16
        for group, stride in enumerate((1, 2, 2)):
            outputs = 16 * width * 2**group
            for number in range((depth - 4) // 6):
                first = group == number == 0
                blocks.append(Block(inputs, outputs, stride if number == 0 else 1, first, momentum, padding))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm = norm(inputs, momentum)
        self.activation = _activation()
        self.features = inputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")

    def forward(self, images: Tensor) -> Tensor:
        x = self.activation(self.norm(self.blocks(self.stem(images))))
        return pooled(x)
