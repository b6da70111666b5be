"""AdaMatch (Berthelot et al., 2022): pseudo-labels have the classes' shares that predictions for the labelled have.

They are accepted relative to the confidence in these, and labels are learnt on mixtures of two logits.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surelabel.methods.alignment import MovingMean
from surelabel.methods.bam import bayesian
from surelabel.methods.base import PoolPrediction, State
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Sharpen


@dataclass(frozen=True)
class Relative(Select):
    """Accept from `threshold` times the mean confidence in predictions for the labelled samples."""

    threshold: float
    reads: ClassVar[frozenset[str]] = frozenset({"selection.threshold"})
    needs_labelled: ClassVar[bool] = True

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        assert prediction.labelled is not None
        threshold = self.threshold * prediction.labelled.amax(-1).mean()
        return prediction.probs.amax(-1) >= threshold, state


adamatch = SelfTraining(
    select=Relative(0.9), target=Sharpen(1.0), align=MovingMean("labelled-predictions"), interpolate=True
)
bam_adamatch = bayesian(adamatch)
