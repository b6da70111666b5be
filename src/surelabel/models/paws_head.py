"""PAWS's head: features -> representations, and predictions by the neighbours that these have among the labels."""

from collections.abc import Callable
from math import sqrt
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.gaussian_linear import GaussianLinear
from surelabel.models.heads import Bayesian
from surelabel.models.prediction import Prediction

BOTTLENECK = 4  # a prediction head is that much narrower in the middle


class PawsHead(nn.Module):
    """Three layers, BatchNorm and ReLU between them; with `bayesian`, the last is Gaussian.

    The mean of M draws of a linear layer's weights is again a draw, of weights with 1/√M of the deviation: so that is
    what `noise` gives, and averaging M representations costs one product. `support` holds the representations of all
    labelled images, of which `predict` finds the neighbours; `remember` brings it up to date. It is saved with the
    weights, but is no buffer, which an averaged network would average.
    """

    def __init__(
        self, features: int, width: int, classes: int, temperature: float,
        bayesian: Bayesian | None = None, prediction_head: bool = False, batch_norm: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.classes = classes
        self.temperature = temperature
        self.samples = bayesian.samples if bayesian else 1
        self.hidden = nn.Sequential(*_layer(features, width, batch_norm), *_layer(width, width, batch_norm))
        self.last: nn.Linear | GaussianLinear
        self.last = GaussianLinear(width, width, bayesian.prior_std) if bayesian else nn.Linear(width, width)
        narrow = max(1, width // BOTTLENECK)
        self.prediction_head = (
            nn.Sequential(_norm(width, batch_norm), *_layer(width, narrow, batch_norm), nn.Linear(narrow, width))
            if prediction_head
            else None
        )
        self.support = torch.zeros(0, width)
        self.support_classes = torch.zeros(0, dtype=torch.int64)

    def noise(self, draws: np.random.Generator) -> Tensor | None:
        """What one averaged draw of the last layer needs."""
        return self.last.noise(draws) / sqrt(self.samples) if isinstance(self.last, GaussianLinear) else None

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Features [N, D] -> representations [N, 1, d], and behind a prediction head what it makes of them [N, 2, d].

        Without noise, a Gaussian layer gives the mean of infinitely many draws.
        """
        hidden = self.hidden(features)
        if isinstance(self.last, GaussianLinear):
            z = self.last.mean(hidden) if noise is None else self.last(hidden, noise)
        else:
            z = self.last(hidden)
        return z[:, None] if self.prediction_head is None else torch.stack([z, self.prediction_head(z)], dim=1)

    def update_support(self, support: Tensor, classes: Tensor) -> None:
        """The representations [L, d] of the labelled images and their classes [L]."""
        self.support = F.normalize(support, dim=-1)
        self.support_classes = classes

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Another device or precision, for the support too: torch knows of parameters and buffers alone."""
        self.support, self.support_classes = fn(self.support), fn(self.support_classes)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def get_extra_state(self) -> Tensor:
        """The support [L, d + 1], the class in the last column: a whole number, which float32 holds exactly."""
        return torch.cat([self.support, self.support_classes[:, None].to(self.support)], dim=1)

    def set_extra_state(self, state: Tensor) -> None:
        device = next(self.parameters()).device
        self.support, self.support_classes = state[:, :-1].to(device), state[:, -1].to(device, torch.int64)

    @torch.no_grad()
    def predict(self, features: Tensor, draws: np.random.Generator, first: int = 0) -> Prediction:
        """Class probabilities [N, K] of features [N, D] by their neighbours among all labelled images."""
        with torch.autocast(features.device.type, enabled=False):
            z = F.normalize(self(features.to(next(self.parameters()).dtype))[:, -1], dim=-1)
            votes = (z @ self.support.T / self.temperature).softmax(-1)
        return Prediction(votes.new_zeros(len(z), self.classes).index_add_(1, self.support_classes, votes))

    def kl(self) -> tuple[Tensor, Tensor] | None:
        return self.last.kl() if isinstance(self.last, GaussianLinear) else None


def _layer(inputs: int, outputs: int, batch_norm: bool) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs), _norm(outputs, batch_norm), nn.ReLU(inplace=True)]


def _norm(width: int, batch: bool) -> nn.Module:
    return nn.BatchNorm1d(width) if batch else nn.LayerNorm(width)
