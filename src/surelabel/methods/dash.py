"""Dash (Xu et al., 2021): accept pseudo-labels whose loss is below a threshold, which falls during training.

It begins at the loss on the labels after a warm-up without pseudo-labels.
"""

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar, Self

import torch
from torch import Tensor

from surelabel.config.run import RunConfig, steps_of
from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State, moving_mean
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard
from surelabel.models.prediction import LEAST


@dataclass(frozen=True)
class FallingLoss(Select):
    """Accept if -log of the confidence is at most C γ^-k ρ, or `least`; ρ is the loss on labels at the end of `warmup`.

    k is how often `every` steps have passed since. ρ is a moving mean over batches.
    """

    every: int = 1
    warmup: int = 0
    factor: float = 1.0001  # C
    fall: float = 1.27  # γ
    least: float = 0.05
    reads: ClassVar[frozenset[str]] = frozenset({"selection.warmup"})
    needs_labelled: ClassVar[bool] = True

    def configured(self, config: RunConfig, temperature: float) -> Self:
        # Published: every 9 of 1024 epochs.
        every, warmup = steps_of(9 / 1024, config.steps), steps_of(config.selection.warmup, config.steps)
        return replace(self, every=every, warmup=warmup)

    def init(self, pool: Pool) -> State:
        return {"loss": torch.tensor(log(pool.classes))}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        assert prediction.labelled is not None and prediction.labels is not None
        confidence, loss = prediction.probs.amax(-1), state["loss"]
        if step <= self.warmup:
            picked = prediction.labelled.gather(1, prediction.labels[:, None]).clamp_min(LEAST)
            loss = moving_mean(loss, -picked.log().mean(), 0.9 if self.warmup else 0.0)
        if step < self.warmup:
            return torch.zeros_like(confidence, dtype=torch.bool), {"loss": loss}
        fallen = self.factor * self.fall ** -((step - self.warmup) // self.every)
        return -confidence.clamp_min(LEAST).log() <= (fallen * loss).clamp_min(self.least), {"loss": loss}


dash = SelfTraining(select=FallingLoss(), target=Hard())
bam_dash = bayesian(dash)
