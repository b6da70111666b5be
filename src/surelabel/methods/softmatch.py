"""SoftMatch (Chen et al., 2023): no pseudo-label is rejected, less confident ones count less."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.methods.alignment import MovingMean
from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State, moving_mean
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard


@dataclass(frozen=True)
class TruncatedGaussian(Select):
    """Weights of one from the mean confidence µ on, below it exp(-(p - µ)² n² / 2σ²), with moving µ and σ²."""

    decay: float = 0.999
    width: float = 2.0  # n
    reads: ClassVar[frozenset[str]] = frozenset({"selection.decay"})

    def init(self, pool: Pool) -> State:
        return {"mean": torch.tensor(1 / pool.classes), "variance": torch.tensor(1.0)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        confidence = prediction.probs.amax(-1)
        mean = moving_mean(state["mean"], confidence.mean(), self.decay)
        variance = moving_mean(state["variance"], confidence.var(), self.decay)
        below = (confidence - mean).clamp_max(0)
        weights = torch.exp(-below.square() * self.width**2 / (2 * variance.clamp_min(1e-12)))
        return weights, {"mean": mean, "variance": variance}


# Its pseudo-labels are those of the predictions as they are: only weights are of aligned ones.
softmatch = SelfTraining(
    select=TruncatedGaussian(), target=Hard(), align=MovingMean("uniform", for_selection_only=True)
)
bam_softmatch = bayesian(softmatch)
