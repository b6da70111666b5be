"""What a network predicts."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """Class probabilities [N, K] and, from a Bayesian head, their deviation [N, K]; None from any other, not zero."""

    probs: Tensor
    std: Tensor | None = None
