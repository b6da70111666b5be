"""The last layer of a network: features -> logits, and features -> prediction."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, log
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.config.run import Head
from surelabel.models.gaussian_linear import GaussianLinear
from surelabel.models.prediction import Prediction

Sampling = Literal["logits", "weights"]

# Sampled probabilities held at a time: 16 MiB in float32.
CHUNK = 2**22


@dataclass(frozen=True)
class Bayesian:
    """The settings of a Bayesian head.

    `samples` is the paper's M. `sampling` draws M logit vectors from the Gaussian that the layer induces, or M weight
    matrices as the paper does; `prior` is the deviation of the weights' Gaussian prior.
    """

    samples: int = Head.samples
    sampling: Sampling = Head.sampling
    prior_std: float = Head.prior_std

    @classmethod
    def of(cls, settings: Head) -> "Bayesian":
        return cls(settings.samples, settings.sampling, settings.prior_std)


class LinearHead(nn.Linear):
    """A point estimate of the last layer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        nn.init.xavier_normal_(self.weight)
        nn.init.zeros_(self.bias)

    def noise(self, draws: np.random.Generator) -> None:
        """A point head draws nothing."""

    def forward(self, features: Tensor, noise: None = None) -> Tensor:
        """Features [N, D] -> logits [N, K]."""
        return super().forward(features)

    @torch.no_grad()
    def predict(self, features: Tensor, draws: np.random.Generator, first: int = 0) -> Prediction:
        """Class probabilities [N, K] of features [N, D]."""
        # In the weights' own precision, under mixed precision too: a threshold of 0.95 needs more than three digits.
        with torch.autocast(features.device.type, enabled=False):
            return Prediction(self(features.to(self.weight.dtype)).softmax(dim=-1))

    def kl(self) -> None:
        """A point head has no distribution to compare with a prior."""


class BayesianHead(GaussianLinear):
    """A Gaussian classifier, whose prediction is the mean of many."""

    def __init__(self, features: int, classes: int, settings: Bayesian) -> None:
        super().__init__(features, classes, settings.prior_std)
        self.settings = settings

    @torch.no_grad()
    def predict(
        self, features: Tensor, draws: np.random.Generator, first: int = 0, temperature: float = 1.0
    ) -> Prediction:
        """Mean and deviation (1/M) [N, K] of M sampled softmax outputs, each at this temperature. features [N, D].

        The features are those of sample number `first` and on in the batch that the draws are for.
        """
        moments = [
            _mean_and_deviation((logits / temperature).softmax(dim=-1) for logits in parts)
            for parts in self._sampled_logits(features, draws, first)
        ]
        means, deviations = (torch.cat(rows) for rows in zip(*moments, strict=True))
        return Prediction(means, deviations)

    @torch.no_grad()
    def log_expectations(self, features: Tensor, draws: np.random.Generator) -> tuple[Tensor, Tensor]:
        """E_q[log p(k | x; θ)] and log E_q[p(k | x; θ)], which is never smaller, by the same M samples; each [N, K]."""
        inside, outside = [], []
        for parts in self._sampled_logits(features, draws):
            total, summed = torch.zeros((), device=features.device), torch.tensor(-inf, device=features.device)
            for logs in (logits.log_softmax(-1) for logits in parts):
                total = total + logs.sum(dim=1)
                summed = torch.logaddexp(summed, logs.logsumexp(dim=1))  # probabilities themselves could become zero
            inside.append(total / self.settings.samples)
            outside.append(summed - log(self.settings.samples))
        return torch.cat(inside), torch.cat(outside)

    def _sampled_logits(
        self, features: Tensor, draws: np.random.Generator, first: int = 0
    ) -> Iterator[Iterator[Tensor]]:
        """Logits of features [N, D]: some rows at a time, and of these some of the M draws [n, m, K] at a time."""
        by = {"logits": self._logits_from_their_gaussian, "weights": self._logits_from_weights}
        # In the parameters' own precision, under mixed precision too: deviations are small differences.
        with torch.autocast(features.device.type, enabled=False):
            yield from by[self.settings.sampling](features.to(self.weight_mean.dtype), draws, first)

    def _logits_from_their_gaussian(
        self, features: Tensor, draws: np.random.Generator, first: int
    ) -> Iterator[Iterator[Tensor]]:
        """Draw logits themselves: their mean is µᵀv + b, their variance σ²ᵀv² + σ_b².

        One sample's logits are independent Gaussians, so each prediction has exactly the distribution that drawing
        weights gives it, for two matrix products instead of M. Row n of the noise belongs to sample n.
        """
        mean, deviation = self.moments(features)
        samples, classes = self.settings.samples, mean.shape[1]
        size = max(1, CHUNK // (samples * classes))
        for passed in range(0, first, size):  # normal numbers cannot be skipped, only drawn
            draws.standard_normal((min(size, first - passed), samples, classes), dtype=np.float32)
        for centre, spread in zip(torch.split(mean, size), torch.split(deviation, size), strict=True):
            noise = self.normals(draws, len(centre), samples, classes)
            yield iter([centre[:, None] + spread[:, None] * noise])

    def _logits_from_weights(
        self, features: Tensor, draws: np.random.Generator, first: int
    ) -> Iterator[Iterator[Tensor]]:
        """Draw weights, as many times as there are samples; all rows share a draw."""
        samples = self.settings.samples
        size = max(1, CHUNK // max(1, len(features) * len(self.bias_mean)))
        counts = [min(size, samples - done) for done in range(0, samples, size)]
        yield (torch.stack([self(features, self.noise(draws)) for _ in range(count)], dim=1) for count in counts)


def _mean_and_deviation(parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and deviation (1/M) [N, K] over all the samples of parts [N, m, K], one part held at a time.

    Each part is centred on its own mean: E[x²] − E[x]² would cancel in float32, as deviations are small differences.
    """
    count, mean, variance = 0, torch.zeros(()), torch.zeros(())
    for part in parts:
        count += part.shape[1]
        fraction = part.shape[1] / count
        spread, centre = torch.std_mean(part, dim=1, correction=0)
        shift = centre - mean
        mean = mean + fraction * shift
        variance = (1 - fraction) * variance + fraction * spread.square() + fraction * (1 - fraction) * shift.square()
    return mean, variance.sqrt()
