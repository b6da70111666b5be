"""The last layers of an ensemble of small networks, and what they predict together."""

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.models.prediction import Prediction


class MembersHead(nn.Module):
    """Features [N, E h] -> logits [N, E, K]; predicts the mean over the members, at a temperature.

    The temperature is fitted to predictions for labels that the predicting members have not seen.
    """

    temperature: Tensor

    def __init__(self, features: int, classes: int, members: int) -> None:
        super().__init__()
        width = features // members
        self.weight = nn.Parameter(torch.randn(members, width, classes) * 0.3 / width**0.5)
        self.bias = nn.Parameter(torch.zeros(members, classes))
        self.register_buffer("temperature", torch.ones(()))

    def noise(self, rng: np.random.Generator) -> None:
        """Nothing: the members are point estimates."""

    def forward(self, features: Tensor, noise: None = None) -> Tensor:
        members, width, _ = self.weight.shape
        hidden = features.view(-1, members, width).transpose(0, 1)
        return torch.baddbmm(self.bias[:, None], hidden, self.weight).transpose(0, 1)

    def members(self, features: Tensor) -> Tensor:
        """The probabilities [N, E, K] of each member, before the temperature."""
        with torch.autocast(features.device.type, enabled=False):
            return self.forward(features.to(self.weight.dtype)).softmax(dim=-1)

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Probabilities [N, K], and the std of the members' own, each at the same temperature."""
        return Prediction(*self.mean_and_std(features))

    def mean_and_std(self, features: Tensor) -> tuple[Tensor, Tensor]:
        probs = self.members(features)
        return self.at_temperature(probs.mean(1)), self.at_temperature(probs).std(1, correction=0)

    def at_temperature(self, probs: Tensor) -> Tensor:
        """norm(probs ^ (1 / temperature))."""
        return (probs.clamp_min(1e-30).log() / self.temperature).softmax(dim=-1)

    def kl(self) -> None:
        """Nothing: there is no distribution to compare with a prior."""
