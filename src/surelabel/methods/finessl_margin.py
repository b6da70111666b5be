"""FineSSL's balanced margin (Gan and Wei, 2024): classes that are learnt slowly must win by a larger margin.

FineSSL weighs pseudo-labels by the confidence of a second head; here it is the confidence of the only one.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.equations import masked_cross_entropy
from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State
from surelabel.methods.criterion import CrossEntropy
from surelabel.methods.flexmatch import nothing_learnt, remembered
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard


@dataclass(frozen=True)
class ByConfidence(Select):
    """Weights that are the confidence; none is rejected. From `threshold` on, a prediction counts for its class."""

    threshold: float
    reads: ClassVar[frozenset[str]] = frozenset({"selection.threshold"})
    keeps: ClassVar[frozenset[str]] = frozenset({"learnt"})

    def init(self, pool: Pool) -> State:
        return nothing_learnt(pool) | {"learnt": torch.zeros(pool.classes)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        confidence = prediction.probs.amax(-1)
        counts = state["counts"][1:]
        learnt = {"learnt": counts / counts.max().clamp_min(1)}
        return confidence, learnt | remembered(state, prediction, confidence >= self.threshold)


@dataclass(frozen=True)
class BalancedMargin(CrossEntropy):
    """Cross-entropy, in which (1 - β) / (1 + β) · (max β - min β) · `strength` is added to all other classes' logits.

    β of a class is how far it is learnt.
    """

    strength: float = 8.0
    needs: ClassVar[frozenset[str]] = frozenset({"learnt"})

    def labelled(self, logits: Tensor, labels: Tensor, state: State) -> Tensor:
        learnt = state["learnt"]
        margin = (1 - learnt) / (1 + learnt) * (learnt.max() - learnt.min()) * self.strength
        others = 1 - F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        return logits + margin.to(logits.dtype)[labels][:, None] * others

    def unlabelled(self, logits: Tensor, target: Tensor, weights: Tensor, state: State) -> Tensor:
        return masked_cross_entropy(self.labelled(logits, target.argmax(-1), state), target, weights)


finessl_margin = SelfTraining(select=ByConfidence(0.7), target=Hard(), criterion=BalancedMargin())
bam_finessl_margin = bayesian(finessl_margin)
