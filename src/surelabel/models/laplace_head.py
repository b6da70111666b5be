"""A linear last layer that predicts by draws from Laplace's approximation to its posterior."""

from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from torch import Tensor

from surelabel.models import laplace
from surelabel.models.heads import LinearHead
from surelabel.models.layers_head import LayersHead
from surelabel.models.prediction import Prediction
from surelabel.utils.rng import generator


class LaplaceHead(LayersHead, LinearHead):
    """A linear layer that, once fitted, predicts by the mean of `samples` draws of its weights.

    In training it predicts by its weights alone. The draws are saved with it, but are no buffer: an averaged network
    would average them.
    """

    def __init__(self, features: int, classes: int, samples: int, precision: float | None) -> None:
        super().__init__(features, classes)
        self.samples, self.precision = samples, precision
        self.drawn = torch.zeros(0, classes, features + 1)  # [M, K, D + 1], biases last

    def fit(self, features: Tensor) -> None:
        """Draw the weights from the posterior by the features [n, D] of the labelled samples."""
        extended = torch.cat([features, torch.ones_like(features[:, :1])], dim=1).cpu().double()
        mean = torch.cat([self.weight.detach(), self.bias.detach()[:, None]], dim=1).cpu().double()
        posterior = laplace.fit(mean, extended, self.precision)
        noise = generator(0, "laplace").standard_normal((self.samples, mean.numel()))
        self.drawn = posterior.draw(torch.from_numpy(noise)).to(self.weight)

    def layers(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Those that were drawn, at each call."""
        return self.drawn[..., :-1], self.drawn[..., -1]

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        if self.training or not len(self.drawn):
            return LinearHead.predict(self, features, rng, first)
        return super().predict(features, rng, first)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the draws too: torch does so for parameters and buffers only."""
        self.drawn = fn(self.drawn)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def get_extra_state(self) -> Tensor:
        return self.drawn

    def set_extra_state(self, state: Tensor) -> None:
        self.drawn = state.to(self.weight)
