"""The last layer of a network: features -> logits, and features -> prediction."""

import torch
from torch import Tensor, nn

from surelabel.types import Prediction


class LinearHead(nn.Linear):
    """A point estimate of the last layer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        nn.init.xavier_normal_(self.weight)
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def predict(self, features: Tensor) -> Prediction:
        """Class probabilities [N, K] of features [N, D]."""
        return Prediction(self(features).softmax(dim=-1))
