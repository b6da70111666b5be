"""PAWS's head: features -> representations, and nearest-neighbour predictions from these."""

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

BOTTLENECK = 4  # how much narrower the prediction head is in the middle


class PawsHead(nn.Module):
    """Three layers with BatchNorm and ReLU between them; with `bayesian`, the last is Gaussian.

    The mean of M draws of a linear layer's weights is one draw with 1/√M of their std. `noise`
    draws that, so averaging M representations costs one product.

    `support` holds the representations of all labelled images, among which `predict` finds the
    neighbours; `update_support` refreshes it. It is saved with the weights, but is not a buffer:
    an averaged network would average it.
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

    def noise(self, rng: np.random.Generator) -> Tensor | None:
        """Noise for the mean of M draws of the last layer."""
        return self.last.noise(rng) / sqrt(self.samples) if isinstance(self.last, GaussianLinear) else None

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Features [N, D] -> representations [N, 1, d], or with a prediction head [N, 2, d].

        Without noise, a Gaussian layer uses its mean weights.
        """
        hidden = self.hidden(features)
        if isinstance(self.last, GaussianLinear):
            z = self.last.mean(hidden) if noise is None else self.last(hidden, noise)
        else:
            z = self.last(hidden)
        return z[:, None] if self.prediction_head is None else torch.stack([z, self.prediction_head(z)], dim=1)

    def update_support(self, support: Tensor, classes: Tensor) -> None:
        """Store the representations [L, d] of the labelled images and their classes [L]."""
        self.support = F.normalize(support, dim=-1)
        self.support_classes = classes

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the support too: torch does so for parameters and buffers only."""
        self.support, self.support_classes = fn(self.support), fn(self.support_classes)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def get_extra_state(self) -> Tensor:
        """The support with the classes, which float32 holds exactly, as last column [L, d + 1]."""
        return torch.cat([self.support, self.support_classes[:, None].to(self.support)], dim=1)

    def set_extra_state(self, state: Tensor) -> None:
        """Raises a `ValueError` unless these are representations and classes of this head's."""
        if state.ndim != 2 or state.shape[1] != self.support.shape[1] + 1:
            raise ValueError(f"the support has the form {list(state.shape)}")
        if not ((state[:, -1] >= 0) & (state[:, -1] < self.classes)).all():
            raise ValueError("the support has classes that there are not")
        device = next(self.parameters()).device
        self.support, self.support_classes = state[:, :-1].to(device), state[:, -1].to(device, torch.int64)

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Features [N, D] -> class probabilities [N, K] by their neighbours in the support."""
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
