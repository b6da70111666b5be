"""Heads that predict by the mean of the softmax outputs of several linear layers."""

from abc import ABC, abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.models.heads import CHUNK
from surelabel.models.prediction import Prediction


class LayersHead(ABC):
    """What such heads have in common. All samples of a batch share the layers."""

    @abstractmethod
    def layers(self, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """The weights [M, K, D] and biases [M, K] of M linear layers."""

    @torch.no_grad()
    def predict(self, features: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Features [N, D] -> mean and std [N, K] of the layers' class probabilities."""
        # Not in mixed precision: the std comes from small differences.
        with torch.autocast(features.device.type, enabled=False):
            weight, bias = self.layers(rng)
            size = max(1, CHUNK // bias.numel())
            parts = [mean_and_std(rows, weight, bias) for rows in torch.split(features.to(weight.dtype), size)]
        means, stds = (torch.cat(rows) for rows in zip(*parts, strict=True))
        return Prediction(means, stds)


def mean_and_std(features: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std (1/M) [N, K] over layers [M, K, D] and [M, K] of what they predict for features [N, D]."""
    std, mean = torch.std_mean(logits_of(features, weight, bias).softmax(dim=-1), dim=1, correction=0)
    return mean, std


def logits_of(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The logits [N, M, K] of each layer."""
    return F.linear(features, weight.flatten(0, 1), bias.flatten()).view(-1, *bias.shape)
