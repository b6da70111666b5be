"""What a network predicts."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Prediction:
    """Class probabilities [N, K], and their std [N, K] if the head is Bayesian or an ensemble, else None."""

    probs: Tensor
    std: Tensor | None = None
