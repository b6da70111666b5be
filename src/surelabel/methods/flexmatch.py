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
        return nothing_learnt(pool)

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        confidence, predicted = prediction.probs.max(-1)
        counts = state["counts"]
        learnt = (counts[1:] / counts.max())[predicted]  # samples without a class count as one more class
        accepted = confidence >= self.threshold * learnt / (2 - learnt)
        return accepted, remembered(state, prediction, confidence >= self.threshold)


def nothing_learnt(pool: Pool) -> State:
    """The last class of each sample [N], and how many samples [1 + K] have none yet, and each class."""
    counts = torch.zeros(1 + pool.classes, dtype=torch.long)
    counts[0] = pool.samples
    return {"last_class": torch.full((pool.samples,), NEVER), "counts": counts}


def remembered(state: State, prediction: PoolPrediction, confident: Tensor) -> State:
    """The state after a batch of which the `confident` [U] predictions count. The last classes change in place.

    So a step takes the same time with any pool. Of a sample that is in the batch twice, the larger class counts, so
    that the order does not matter.
    """
    assert prediction.positions is not None
    last, positions = state["last_class"], prediction.positions
    ordered = positions.sort().values
    once = (ordered.diff(prepend=ordered[:1] - 1) != 0).long()  # each sample of the batch
    before = last[ordered]
    latest = torch.where(confident, prediction.probs.argmax(-1), NEVER)
    # Forget what is predicted anew, then remember it.
    last.scatter_reduce_(0, positions, torch.where(confident, NEVER, last[positions]), "amin")
    last.scatter_reduce_(0, positions, latest, "amax")
    changes = ((before, -once), (last[ordered], once))
    counts = state["counts"].clone()
    for classes, times in changes:
        # Clamped, as a checkpoint may say anything.
        counts.index_add_(0, (classes + 1).clamp(0, len(counts) - 1), times)
    return {"last_class": last, "counts": counts}


flexmatch = SelfTraining(select=Curriculum(0.95), target=Hard())
bam_flexmatch = bayesian(flexmatch)
