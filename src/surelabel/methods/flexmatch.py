"""FlexMatch (Zhang et al., 2021): a class that is learnt slowly is accepted at a lower confidence.

How far a class is learnt is how many samples of the pool were last confidently predicted to be of it.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard

NEVER = -1  # the class of a sample that was not yet predicted with confidence


@dataclass(frozen=True)
class Curriculum(Select):
    """Accept from `threshold` · β / (2 - β), where β of the predicted class is how far it is learnt."""

    threshold: float
    reads: ClassVar[frozenset[str]] = frozenset({"selection.threshold"})

    def init(self, pool: Pool) -> State:
        return {"last_class": torch.full((pool.samples,), NEVER)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        confidence, predicted = prediction.probs.max(-1)
        counts = counted(state["last_class"], prediction.probs.shape[1])
        learnt = (counts[1:] / counts.max())[predicted]  # samples without a class count as one more class
        accepted = confidence >= self.threshold * learnt / (2 - learnt)
        return accepted, {"last_class": remembered(state, prediction, confidence >= self.threshold)}


def counted(last_class: Tensor, classes: int) -> Tensor:
    """How many samples [1 + K] have no class yet, and each class. last_class [N]."""
    # Clamped, as a checkpoint may say anything, and the counts take memory by the largest.
    return (last_class + 1).clamp(0, classes).bincount(minlength=classes + 1)


def remembered(state: State, prediction: PoolPrediction, confident: Tensor) -> Tensor:
    """The last classes [N] of the pool after a batch, of which those of `confident` [U] predictions change.

    Of a sample that is in the batch twice, the larger class counts, so that the order does not matter.
    """
    assert prediction.positions is not None
    latest = torch.where(confident, prediction.probs.argmax(-1), NEVER)
    batch = torch.full_like(state["last_class"], NEVER).scatter_reduce(0, prediction.positions, latest, "amax")
    return torch.where(batch != NEVER, batch, state["last_class"])


flexmatch = SelfTraining(select=Curriculum(0.95), target=Hard())
bam_flexmatch = bayesian(flexmatch)
