"""A linear last layer with MC dropout (Gal and Ghahramani, 2016)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.models.heads import LinearHead
from surelabel.models.layers_head import LayersHead
from surelabel.utils.rng import generator


class DropoutHead(LayersHead, LinearHead):
    """Learns from features of which a share `dropout` is left out, and predicts by the mean of `samples` such layers.

    To leave a feature out is to leave its column of the weights out, so M predictions need M thinned layers. They are
    drawn for each step in training; an evaluated network always has the same, so that a prediction is that of its
    sample alone.
    """

    def __init__(self, features: int, classes: int, dropout: float, samples: int) -> None:
        super().__init__(features, classes)
        self.dropout, self.samples = dropout, samples

    def kept(self, uniform: NDArray[np.float32]) -> Tensor:
        """From uniform draws [..., D] the mask of the features that are kept, over the share that is."""
        mask = torch.from_numpy(uniform >= self.dropout).to(self.weight)
        return mask / (1 - self.dropout)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Features [N, D] under the first rows of a mask [.., D] -> logits [N, K]; without one, all features count."""
        return super().forward(features if mask is None else features * mask[: len(features)])

    def layers(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        rng = rng if self.training else generator(0, "dropout")
        masks = self.kept(rng.random((self.samples, self.in_features), dtype=np.float32))
        return self.weight * masks[:, None], self.bias.expand(self.samples, -1)
