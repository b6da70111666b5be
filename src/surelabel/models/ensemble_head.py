"""An ensemble of linear last layers on one backbone."""

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.models.layers_head import LayersHead, logits_of


class EnsembleHead(LayersHead, nn.Module):
    """Features [N, D] -> logits [N, E, K] of E linear layers, each with initial weights of its own."""

    def __init__(self, features: int, classes: int, members: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, classes, features))
        for member in self.weight:
            nn.init.xavier_normal_(member.data)
        # With one dimension, as weight decay spares such parameters.
        self.bias = nn.Parameter(torch.zeros(members * classes))

    def noise(self, rng: np.random.Generator) -> None:
        """Nothing: the layers are point estimates."""

    def forward(self, features: Tensor, noise: None = None) -> Tensor:
        return logits_of(features, *self.layers())

    def layers(self, rng: np.random.Generator | None = None) -> tuple[Tensor, Tensor]:
        """All of them, at each call."""
        return self.weight, self.bias.view(self.weight.shape[:2])

    def kl(self) -> None:
        """Nothing: there is no distribution to compare with a prior."""
