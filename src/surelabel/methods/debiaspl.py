"""DebiasPL (Wang et al., 2022): pseudo-labels from z - τ log p̄, learnt as z + τ log p̄; p̄ is the mean prediction."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.config.run import Align as Settings
from surelabel.config.run import Alignment
from surelabel.equations import masked_cross_entropy
from surelabel.methods.alignment import Align
from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State, moving_mean
from surelabel.methods.criterion import CrossEntropy
from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard
from surelabel.models.prediction import LEAST
from surelabel.utils.errors import UserError

STRENGTH = 0.4  # τ


def log_mean(state: State) -> Tensor:
    return state["align.mean"].clamp_min(LEAST).log()


@dataclass(frozen=True)
class Debias(Align):
    """p ← norm(p / p̄^τ), where p̄ is the moving mean of the predictions before this batch."""

    decay: float = 0.999
    strength: float = STRENGTH
    rule: ClassVar[Alignment] = "debias"
    reads: ClassVar[frozenset[str]] = frozenset({"align.decay"})
    keeps: ClassVar[frozenset[str]] = frozenset({"align.mean"})

    def configured(self, asked: Settings) -> Align:
        if asked.rule is not None:
            raise UserError(
                f"align.rule {asked.rule} does not go with DebiasPL, whose loss needs the mean that its own alignment "
                "divides by: leave align.rule out, or choose another method"
            )
        return self if asked.decay is None else replace(self, decay=asked.decay)

    def fill(self, asked: Settings) -> Settings:
        return replace(asked, decay=self.decay)

    def init(self, pool: Pool) -> State:
        return {"align.mean": torch.full((pool.classes,), 1 / pool.classes)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[PoolPrediction, State]:
        logs = prediction.probs.clamp_min(LEAST).log() - self.strength * log_mean(state)
        mean = moving_mean(state["align.mean"], prediction.probs.mean(0), self.decay)
        return replace(prediction, probs=logs.softmax(-1)), state | {"align.mean": mean}


@dataclass(frozen=True)
class AdaptiveMargin(CrossEntropy):
    """Cross-entropy of the logits plus τ log p̄: frequent classes must win by a margin over others."""

    strength: float = STRENGTH
    needs: ClassVar[frozenset[str]] = frozenset({"align.mean"})

    def unlabelled(self, logits: Tensor, target: Tensor, weights: Tensor, state: State) -> Tensor:
        return masked_cross_entropy(logits + self.strength * log_mean(state), target, weights)


debiaspl = SelfTraining(select=Confidence(0.95), target=Hard(), align=Debias(), criterion=AdaptiveMargin())
bam_debiaspl = bayesian(debiaspl)
