"""The last layers of an ensemble of small networks, and what they predict together with linear models."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.models.prediction import Prediction

LEAST = 1e-4  # probability of a class by a teacher or linear model, which may be far too sure


class MembersHead(nn.Module):
    """Components [N, p] -> logits [N, E, K] of E small networks, the members of an ensemble.

    A member is linear, LayerNorm, ReLU, linear, with `width` hidden units; all are computed side by side. It predicts
    by the product of two learners to some powers: the mean over the members, and the mean over V linear models, which
    are not trained with them. The powers are fitted to labels that the predicting members and models have not seen;
    their sum is one over a temperature.
    """

    linear_weight: Tensor
    linear_bias: Tensor
    powers: Tensor
    class_weight: Tensor

    def __init__(self, inputs: int, width: int, classes: int, members: int, folds: int) -> None:
        super().__init__()
        # Each member's numbers lie together in memory: what a product gives is then what the next one takes.
        self.hidden_weight = nn.Parameter(torch.randn(members, inputs, width) * (2 / inputs) ** 0.5)
        self.hidden_bias = nn.Parameter(torch.zeros(members * width))
        self.weight = nn.Parameter(torch.randn(members, width, classes) * 0.3 / width**0.5)
        self.bias = nn.Parameter(torch.zeros(members, classes))
        self.register_buffer("linear_weight", torch.zeros(folds, inputs, classes))
        self.register_buffer("linear_bias", torch.zeros(folds, classes))
        self.register_buffer("powers", torch.tensor([1.0, 0.0]))
        # How much a left-out label of each class counts, by the fold that leaves it out.
        self.register_buffer("class_weight", torch.ones(folds, classes))

    def noise(self, rng: np.random.Generator) -> None:
        """Nothing: the members are point estimates."""

    def forward(self, components: Tensor, noise: None = None) -> Tensor:
        members, _, width = self.hidden_weight.shape
        inputs = components.expand(members, -1, -1)
        hidden = torch.baddbmm(self.hidden_bias.view(members, 1, width), inputs, self.hidden_weight)
        hidden = functional.relu(functional.layer_norm(hidden, (width,)))
        return torch.baddbmm(self.bias[:, None], hidden, self.weight).transpose(0, 1)

    def member_logs(self, components: Tensor) -> Tensor:
        """The log of the probabilities of each member [N, E, K]."""
        with torch.autocast(components.device.type, enabled=False):
            return self.forward(components.to(self.weight.dtype)).log_softmax(dim=-1)

    def learners(self, components: Tensor) -> tuple[Tensor, Tensor]:
        """The probabilities of each member [N, E, K], and of each linear model [N, V, K]."""
        with torch.autocast(components.device.type, enabled=False):
            components = components.to(self.weight.dtype)
            linear = torch.einsum("np,vpk->nvk", components, self.linear_weight) + self.linear_bias
            smoothed = (linear.softmax(-1) + LEAST) / (1 + LEAST * linear.shape[-1])
            return self.member_logs(components).exp(), smoothed

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
