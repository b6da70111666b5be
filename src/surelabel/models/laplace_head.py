"""A linear last layer that predicts by the mean over Laplace's approximation to its posterior."""

from collections.abc import Callable
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.models import laplace
from surelabel.models.heads import LinearHead
from surelabel.models.prediction import Prediction


class LaplaceHead(LinearHead):
    """A linear layer that, once fitted, predicts by the mean over its posterior, of prior `precision`.

    In training it predicts by its weights alone. What was fitted is saved with it, but is no buffer: an averaged
    network would average it.
    """

    def __init__(self, features: int, classes: int, precision: float | None) -> None:
        super().__init__(features, classes)
        self.precision = precision
        self.covariances = torch.zeros(0, features + 1, features + 1)  # [K, D + 1, D + 1] once fitted

    def fit(self, features: Tensor) -> None:
        """Fit the posterior by the features [n, D] of the labelled samples."""
        mean = torch.cat([self.weight.detach(), self.bias.detach()[:, None]], dim=1).cpu().double()
        posterior = laplace.fit(mean, with_one(features).cpu().double(), self.precision)
        self.covariances = posterior.covariances().to(self.weight)

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        if self.training or not len(self.covariances):
            return super().predict(features, rng, first)
        with torch.autocast(features.device.type, enabled=False):
            return Prediction(self.probs(features.to(self.weight.dtype), self.covariances))

    def probs(self, features: Tensor, covariances: Tensor) -> Tensor:
        """Features [N, D] -> class probabilities [N, K]."""
        extended = with_one(features)
        variances = ((extended @ covariances) * extended).sum(-1).T  # of the logits
        return laplace.probit(self(features), variances)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the covariances too: torch does so for parameters and buffers only."""
        self.covariances = fn(self.covariances)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def get_extra_state(self) -> Tensor:
        return self.covariances

    def set_extra_state(self, state: Tensor) -> None:
        """Raises a `ValueError` unless these are covariances of this head's weights."""
        if state.shape[1:] != self.covariances.shape[1:] or len(state) not in (0, len(self.weight)):
            raise ValueError(f"the covariances have the form {list(state.shape)}")
        self.covariances = state.to(self.weight)


def with_one(features: Tensor) -> Tensor:
    """Features [N, D] with a one at the end of each, for the bias [N, D + 1]."""
    return F.pad(features, (0, 1), value=1.0)
