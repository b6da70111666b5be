"""The last layer of a network: features -> logits, or features -> prediction."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, log
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.config.run import Head
from surelabel.models.gaussian_linear import GaussianLinear
from surelabel.models.gaussian_softmax import softmax_moments
from surelabel.models.prediction import Prediction

Sampling = Literal["logits", "weights", "closed-form"]

# Sampled probabilities in memory at a time: 4 MiB in float32. With 1000 classes, 16 MiB take a quarter more time.
CHUNK = 2**20


@dataclass(frozen=True)
class Bayesian:
    """Settings of a Bayesian head.

    `samples` is the paper's M. `sampling` draws M logit vectors from the Gaussian that the layer
    induces, or M weight matrices as in the paper; "closed-form" draws nothing. `prior_std` is the
    std of the Gaussian prior.
    """

    samples: int = Head.samples
    sampling: Sampling = Head.sampling
    prior_std: float = Head.prior_std

    @classmethod
    def of(cls, settings: Head) -> "Bayesian":
        return cls(settings.samples, settings.sampling, settings.prior_std)


class LinearHead(nn.Linear):
    """A linear last layer: a point estimate, without uncertainty."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        nn.init.xavier_normal_(self.weight)
        nn.init.zeros_(self.bias)

    def noise(self, rng: np.random.Generator) -> None:
        """Nothing: a point estimate draws no weights."""

    def forward(self, features: Tensor, noise: None = None) -> Tensor:
        """Features [N, D] -> logits [N, K]."""
        return super().forward(features)

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Features [N, D] -> class probabilities [N, K]."""
        # Not in mixed precision: a threshold of 0.95 needs more than three digits.
        with torch.autocast(features.device.type, enabled=False):
            return Prediction(self(features.to(self.weight.dtype)).softmax(dim=-1))

    def kl(self) -> None:
        """Nothing: a point estimate has no distribution to compare with a prior."""


class BayesianHead(GaussianLinear):
    """A Gaussian last layer: pseudo-labels are means of M sampled predictions, or computed as `expected` is."""

    def __init__(self, features: int, classes: int, settings: Bayesian) -> None:
        super().__init__(features, classes, settings.prior_std)
        self.settings = settings

    @torch.no_grad()
    def predict(
        self, features: Tensor, rng: np.random.Generator, first: int = 0, temperature: float = 1.0
    ) -> Prediction:
        """Mean and std (1/M) [N, K] of M softmax outputs at this temperature. features [N, D].

        `first` is the position of the first row in the global batch.
        """
        if self.settings.sampling == "closed-form":
            return self.expected(features, temperature)
        moments = [
            _mean_and_std((logits / temperature).softmax(dim=-1) for logits in parts)
            for parts in self._sampled_logits(features, rng, first)
        ]
        means, stds = (torch.cat(rows) for rows in zip(*moments, strict=True))
        return Prediction(means, stds)

    @torch.no_grad()
    def expected(self, features: Tensor, temperature: float = 1.0) -> Prediction:
        """Mean and std [N, K] of the softmax outputs, without random draws: a row's depend on this row alone."""
        with torch.autocast(features.device.type, enabled=False):
            mean, std = self.moments(features.to(self.weight_mean.dtype))
            return Prediction(*softmax_moments(mean / temperature, std / temperature, self.settings.samples))

    @torch.no_grad()
    def log_expectations(self, features: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """E_q[log p(k | x; θ)] and the larger log E_q[p(k | x; θ)], by M samples; [N, K]."""
        inside, outside = [], []
        for parts in self._sampled_logits(features, rng):
            total, summed = torch.zeros((), device=features.device), torch.tensor(-inf, device=features.device)
            for logs in (logits.log_softmax(-1) for logits in parts):
                total = total + logs.sum(dim=1)
                summed = torch.logaddexp(summed, logs.logsumexp(dim=1))  # not to underflow
            inside.append(total / self.settings.samples)
            outside.append(summed - log(self.settings.samples))
        return torch.cat(inside), torch.cat(outside)

    def _sampled_logits(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Iterator[Iterator[Tensor]]:
        """Logits [n, m, K] of features [N, D], in chunks of rows and, within these, of draws."""
        draw = self._logits_from_weights if self.settings.sampling == "weights" else self._logits_from_their_gaussian
        # Not in mixed precision: the std comes from small differences.
        with torch.autocast(features.device.type, enabled=False):
            yield from draw(features.to(self.weight_mean.dtype), rng, first)

    def _logits_from_their_gaussian(
        self, features: Tensor, rng: np.random.Generator, first: int
    ) -> Iterator[Iterator[Tensor]]:
        """Draw the logits, with mean µᵀv + b and variance σ²ᵀv² + σ_b².

        A sample's logits are independent Gaussians, so its prediction has exactly the distribution
        that drawn weights give, for two matrix products instead of M. Row n of the noise is for
        sample n.
        """
        mean, std = self.moments(features)
        samples, classes = self.settings.samples, mean.shape[1]
        size = max(1, CHUNK // (samples * classes))
        for passed in range(0, first, size):  # normal draws cannot be skipped
            rng.standard_normal((min(size, first - passed), samples, classes), dtype=np.float32)
        for centre, spread in zip(torch.split(mean, size), torch.split(std, size), strict=True):
            noise = self.normals(rng, len(centre), samples, classes)
            yield iter([centre[:, None] + spread[:, None] * noise])

    def _logits_from_weights(
        self, features: Tensor, rng: np.random.Generator, first: int
    ) -> Iterator[Iterator[Tensor]]:
        """Draw the weights M times; all rows share each draw."""
        samples = self.settings.samples
        size = max(1, CHUNK // max(1, len(features) * len(self.bias_mean)))
        counts = [min(size, samples - done) for done in range(0, samples, size)]
        yield (torch.stack([self(features, self.noise(rng)) for _ in range(count)], dim=1) for count in counts)


def _mean_and_std(parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and std (1/M) [N, K] over the samples of parts [N, m, K], one part in memory at a time.

    Each part is centred on its own mean: E[x²] − E[x]² would cancel in float32.
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
