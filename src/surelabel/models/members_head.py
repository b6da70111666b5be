"""The last layers of an ensemble of small networks, and what they predict together with linear models."""

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.models.prediction import Prediction

LEAST = 1e-4  # probability of a class by a teacher or linear model, which may be far too sure


class MembersHead(nn.Module):
    """Features [N, E h + p] of `Members` -> logits [N, E, K]; predicts by the product of two learners to some powers.

    The learners are the mean over the E members, and the mean over V linear models of the p components, which are not
    trained with the network. The powers are fitted to labels that the predicting members and models have not seen;
    their sum is one over a temperature.
    """

    linear_weight: Tensor
    linear_bias: Tensor
    powers: Tensor
    class_weight: Tensor

    def __init__(self, inputs: int, width: int, classes: int, members: int, folds: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, width, classes) * 0.3 / width**0.5)
        self.bias = nn.Parameter(torch.zeros(members, classes))
        self.register_buffer("linear_weight", torch.zeros(folds, inputs, classes))
        self.register_buffer("linear_bias", torch.zeros(folds, classes))
        self.register_buffer("powers", torch.tensor([1.0, 0.0]))
        # How much a left-out label of each class counts, by the fold that leaves it out.
        self.register_buffer("class_weight", torch.ones(folds, classes))

    def noise(self, rng: np.random.Generator) -> None:
        """Nothing: the members are point estimates."""

    def forward(self, features: Tensor, noise: None = None) -> Tensor:
        members, width, _ = self.weight.shape
        hidden = features[:, : members * width].view(-1, members, width).transpose(0, 1)
        return torch.baddbmm(self.bias[:, None], hidden, self.weight).transpose(0, 1)

    def members(self, features: Tensor) -> Tensor:
        """The probabilities of each member [N, E, K]."""
        with torch.autocast(features.device.type, enabled=False):
            return self.forward(features.to(self.weight.dtype)).softmax(dim=-1)

    def learners(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of each member [N, E, K], and of each linear model [N, V, K]."""
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.weight.dtype)
            components = features[:, features.shape[1] - self.linear_weight.shape[1] :]
            linear = torch.einsum("np,vpk->nvk", components, self.linear_weight) + self.linear_bias
            smoothed = (linear.softmax(-1) + LEAST) / (1 + LEAST * linear.shape[-1])
            return self.members(features), smoothed

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Probabilities [N, K], and their std over the members, each joined with the linear model of its fold."""
        return Prediction(*self.mean_and_std(features))

    def mean_and_std(self, features: Tensor) -> tuple[Tensor, Tensor]:
        members, linear = self.learners(features)
        each = self._join(members, linear.repeat(1, members.shape[1] // linear.shape[1], 1))
        return self._join(members.mean(1), linear.mean(1)), each.std(1, correction=0)

    def _join(self, members: Tensor, linear: Tensor) -> Tensor:
        logs = self.powers[0] * members.clamp_min(1e-30).log() + self.powers[1] * linear.log()
        return logs.softmax(dim=-1)

    def kl(self) -> None:
        """Nothing: there is no distribution to compare with a prior."""
