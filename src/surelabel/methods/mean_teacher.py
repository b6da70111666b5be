"""Mean Teacher (Tarvainen and Valpola, 2017), and the Π-model (Laine and Aila, 2017): two views are to agree.

All predictions are targets as they are, and their squared difference is the loss. The teacher is an average of the
network (config.methods.TAUGHT), in the Π-model the network itself.
"""

from dataclasses import dataclass, replace
from math import exp
from typing import ClassVar, Self

import torch
from torch import Tensor

from surelabel.config.run import RunConfig, steps_of
from surelabel.methods.bam import bayesian
from surelabel.methods.base import PoolPrediction, State
from surelabel.methods.criterion import CrossEntropy
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Sharpen


@dataclass(frozen=True)
class RampUp(Select):
    """All with the same weight, exp(-5 (1 - x)²), where x rises from 0 to 1 over `warmup` steps."""

    warmup: int = 0
    reads: ClassVar[frozenset[str]] = frozenset({"selection.warmup"})

    def configured(self, config: RunConfig, temperature: float) -> Self:
        return replace(self, warmup=steps_of(config.selection.warmup, config.steps))

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        left = max(0.0, 1 - step / self.warmup) if self.warmup else 0.0
        return torch.full_like(prediction.probs[:, 0], exp(-5 * left**2)), state


@dataclass(frozen=True)
class SquaredError(CrossEntropy):
    """For unlabelled samples, the mean over them and the classes of the squared difference of probabilities."""

    def unlabelled(self, logits: Tensor, target: Tensor, weights: Tensor, state: State) -> Tensor:
        return ((logits.softmax(-1) - target.detach()).square().mean(-1) * weights).mean()


pi_model = SelfTraining(
    select=RampUp(), target=Sharpen(1.0), criterion=SquaredError(), views=("weak", "weak"), weight=10.0, ratio=1
)
mean_teacher = replace(pi_model, weight=50.0)
bam_pi_model = bayesian(pi_model)
bam_mean_teacher = bayesian(mean_teacher)
