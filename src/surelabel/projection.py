"""PAWS's head: features -> representations, and predictions by the neighbours that these have among the labels."""

from math import sqrt

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.equations import soft_nearest_neighbours
from surelabel.gaussian import GaussianLinear
from surelabel.heads import Bayesian
from surelabel.types import Prediction

BOTTLENECK = 4  # a prediction head is that much narrower in the middle


class Projection(nn.Module):
    """Three layers, BatchNorm and ReLU between them; with `bayesian`, the last is Gaussian.

    The mean of M draws of a linear layer's weights is again a draw, of weights with 1/√M of the deviation: so that is
    what `noise` gives, and averaging M representations costs one product. `support` holds the representations of all
    labelled images, of which `predict` finds the neighbours; `remember` brings it up to date.
    """

    support: Tensor
    support_classes: Tensor

    def __init__(
        self, features: int, width: int, classes: int, labelled: int, temperature: float,
        bayesian: Bayesian | None = None, prediction_head: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.classes = classes
        self.temperature = temperature
        self.samples = bayesian.samples if bayesian else 1
        self.hidden = nn.Sequential(*_layer(features, width), *_layer(width, width))
        self.last: nn.Linear | GaussianLinear
        self.last = GaussianLinear(width, width, bayesian.prior) if bayesian else nn.Linear(width, width)
        narrow = width // BOTTLENECK
        self.prediction_head = (
            nn.Sequential(*_layer(width, narrow), nn.Linear(narrow, width)) if prediction_head else None
        )
        self.register_buffer("support", torch.zeros(labelled, width))
        self.register_buffer("support_classes", torch.zeros(labelled, dtype=torch.int64))

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

    def remember(self, support: Tensor, classes: Tensor) -> None:
        """The representations [L, d] of the labelled images and their classes [L]."""
        self.support = support
        self.support_classes = classes

    @torch.no_grad()
    def predict(self, features: Tensor, draws: np.random.Generator) -> Prediction:
        """Class probabilities [N, K] of features [N, D] by their neighbours among all labelled images."""
        exact = F.one_hot(self.support_classes, self.classes)
        with torch.autocast(features.device.type, enabled=False):
            z = self(features.to(self.support.dtype))[:, 0]
            return Prediction(soft_nearest_neighbours(z, self.support, exact, self.temperature))

    def kl(self) -> tuple[Tensor, Tensor] | None:
        return self.last.kl() if isinstance(self.last, GaussianLinear) else None


def _layer(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)]
