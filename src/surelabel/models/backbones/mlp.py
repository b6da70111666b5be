"""Multi-layer perceptrons, for tables."""

from math import prod

from torch import Tensor, nn


class MLP(nn.Module):
    """Samples [N, ...], flattened -> features [N, D = width]: `depth` × (linear, norm, ReLU).

    The norm is BatchNorm; without a momentum, LayerNorm.
    """

    def __init__(self, shape: tuple[int, ...], depth: int, width: int, momentum: float | None) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        inputs = prod(shape)
        for _ in range(depth):
            # No bias: the norm subtracts it.
            layers += [nn.Linear(inputs, width, bias=False), _norm(width, momentum), nn.ReLU(inplace=True)]
            inputs = width
        self.layers = nn.Sequential(*layers)
        self.features = width
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, samples: Tensor) -> Tensor:
        features: Tensor = self.layers(samples)
        return features


def _norm(width: int, momentum: float | None) -> nn.Module:
    return nn.LayerNorm(width) if momentum is None else nn.BatchNorm1d(width, momentum=momentum)
