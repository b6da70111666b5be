"""FreeMatch (Wang et al., 2023): the threshold follows the network's confidence, for each class by its own mean.

A fairness term keeps the predictions for strong views from crowding into few classes.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.equations import harden
from surelabel.methods.bam import bayesian
from surelabel.methods.base import Pool, PoolPrediction, State, moving_mean
from surelabel.methods.criterion import CrossEntropy
from surelabel.methods.selection import Select
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard
from surelabel.utils.distributed import World


@dataclass(frozen=True)
class SelfAdaptive(Select):
    """Accept from the moving mean confidence, times the class's moving mean probability over the largest."""

    decay: float = 0.999
    reads: ClassVar[frozenset[str]] = frozenset({"selection.decay"})
    keeps: ClassVar[frozenset[str]] = frozenset({"mean", "shares"})

    def init(self, pool: Pool) -> State:
        uniform = torch.full((pool.classes,), 1 / pool.classes)
        return {"threshold": uniform[0].clone(), "mean": uniform, "shares": uniform.clone()}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        confidence, predicted = prediction.probs.max(-1)
        threshold = moving_mean(state["threshold"], confidence.mean(), self.decay)
        mean = moving_mean(state["mean"], prediction.probs.mean(0), self.decay)
        shares = moving_mean(state["shares"], harden(prediction.probs).mean(0), self.decay)
        accepted = confidence >= (threshold * mean / mean.max())[predicted]
        return accepted, {"threshold": threshold, "mean": mean, "shares": shares}


@dataclass(frozen=True)
class Fair(CrossEntropy):
    """Cross-entropy, plus `weight` times the fairness term.

    It is Σ a log b: b is the mean prediction for the accepted strong views, each class over its share among them; a the
    same of the moving means. So it falls as classes gain that the network predicts too seldom.
    """

    weight: float = 0.01
    needs: ClassVar[frozenset[str]] = frozenset({"mean", "shares"})

    def further(self, logits: Tensor, weights: Tensor, state: State, world: World) -> dict[str, tuple[float, Tensor]]:
        probs, accepted = logits.softmax(-1), (weights > 0).to(logits.dtype)[:, None]
        count = world.sum(accepted.sum()).clamp_min(1)
        mean = world.sum((probs * accepted).sum(0)) / count
        shares = world.sum((harden(probs) * accepted).sum(0)) / count
        usual, now = per_share(state["mean"], state["shares"]), per_share(mean, shares)
        return {"fairness": (self.weight, (usual * (now + 1e-12).log()).sum())}


def per_share(probs: Tensor, shares: Tensor) -> Tensor:
    """Probabilities [K] over shares [K], normalised; 0 for a class without a share."""
    scaled = probs * torch.where(shares > 0, 1 / shares, 0)
    return scaled / scaled.sum().clamp_min(1e-6)


freematch = SelfTraining(select=SelfAdaptive(), target=Hard(), criterion=Fair())
bam_freematch = bayesian(freematch)
