"""The margin penalty (Liu et al., 2022, "The devil is in the margin"; for unlabelled logits Mishra et al., 2024)."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from surelabel.config.run import Calibration, RunConfig
from surelabel.methods.calibrators.base import Calibrator


@dataclass(frozen=True)
class MarginPenalty(Calibrator):
    """Add weight · mean relu(max_j z_j - z_k - m) over all classes k, and over labelled and strong views."""

    margin: float = Calibration.margin
    weight: float = Calibration.margin_weight

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        return cls(config.calibration.margin, config.calibration.margin_weight)

    def penalty(self, logits: Tensor) -> tuple[Tensor, float]:
        distance = logits.amax(dim=-1, keepdim=True) - logits
        return (distance - self.margin).relu().mean(), self.weight
