"""Residual networks (He et al., 2016); bottlenecks have their stride in the 3×3 convolution."""

from torch import Tensor, nn

from surelabel.models.backbones.layers import Conv, MaxPool, norm, pooled

SMALL = 64  # pixels; smaller images are not reduced by the stem
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


class Block(nn.Module):
    """A residual block: two 3×3 convolutions, or a bottleneck 1×1 - 3×3 - 1×1 with 4 × channels."""

    def __init__(
        self, inputs: int, width: int, stride: int, bottleneck: bool, momentum: float | None, padding: str
    ) -> None:
        super().__init__()
        outputs = width * (4 if bottleneck else 1)
        if bottleneck:
            shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            shapes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        layers: list[nn.Module] = []
        for index, (before, after, kernel, step) in enumerate(shapes):
            layers += [nn.ReLU(inplace=True)] if index else []
            layers += [Conv(before, after, kernel, step, padding), norm(after, momentum)]
        self.branch = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(Conv(inputs, outputs, 1, stride), norm(outputs, momentum))
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.activation(self.branch(x) + self.shortcut(x))
        return out


class ResNet(nn.Module):
    """Images [N, C, H, W] -> features [N, D]; D = 512, or 2048 with bottlenecks.

    Images below 64 pixels get a 3×3 stem of stride `stem_stride` without pooling: the usual 7×7
    stem of stride 2 and its pooling would reduce 32 pixels to one.
    """

    def __init__(
        self, channels: int, depth: int, side: int, momentum: float | None, padding: str = "zeros", stem_stride: int = 1
    ) -> None:
        super().__init__()
        small = side < SMALL
        bottleneck = depth >= 50
        self.stem = nn.Sequential(
            Conv(channels, 64, 3, stem_stride, padding) if small else Conv(channels, 64, 7, 2, padding),
            norm(64, momentum),
            nn.ReLU(inplace=True),
            nn.Identity() if small else MaxPool(padding),
        )
        blocks: list[nn.Module] = []
        inputs = 64
        for group, count in enumerate(BLOCKS[depth]):
            width = 64 * 2**group
            for number in range(count):
                stride = 2 if group and number == 0 else 1
                blocks.append(Block(inputs, width, stride, bottleneck, momentum, padding))
                inputs = width * (4 if bottleneck else 1)
        self.blocks = nn.Sequential(*blocks)
        self.features = inputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return pooled(self.blocks(self.stem(images)))
