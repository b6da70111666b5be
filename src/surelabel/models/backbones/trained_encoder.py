"""An encoder that is trained further, as the backbone of a network."""

from copy import deepcopy

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from surelabel.models.encoders.base import TorchEncoder


class TrainedEncoder(nn.Module):
    """Pixels from 0 to 255 [N, 1 or 3, H, W] -> features [N, D], by a copy of an encoder's network.

    It stays in evaluation mode: what a network drops at random does not depend on the step only, so runs could not be
    repeated. With few labels BatchNorm's statistics of the original training are better than those of small batches,
    unless they are asked for.
    """

    def __init__(self, encoder: TorchEncoder, norm: str) -> None:
        super().__init__()
        self.network = deepcopy(encoder.module).cpu().requires_grad_(True)
        self.norm = norm
        self.features = encoder.dimensions

    def train(self, mode: bool = True) -> "TrainedEncoder":
        super().train(False)
        self.training = mode
        if self.norm == "batch":
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.train(mode)
        return self

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network(images)
        return features
