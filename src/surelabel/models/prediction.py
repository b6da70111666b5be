"""What a network predicts."""

from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 1e-30


@dataclass(frozen=True)
class Prediction:
    """Class probabilities [N, K], and their std [N, K] if the head is Bayesian or an ensemble, else None."""

    probs: Tensor
    std: Tensor | None = None

    def at(self, temperature: float) -> "Prediction":
        """The prediction at this temperature: p^(1/T), normalised. Its std is to first order, each class against all
        others.
        """
        if temperature == 1:
            return self
        probs = (self.probs.clamp_min(LEAST).log() / temperature).softmax(-1)
        if self.std is None:
            return Prediction(probs)
        spread = probs * (1 - probs)
        slope = spread / (self.probs * (1 - self.probs)).clamp_min(LEAST) / temperature
        return Prediction(probs, torch.minimum(self.std * slope, spread.sqrt()))
