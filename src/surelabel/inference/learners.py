"""The two learners of a run of `sure`, on labels that they have not seen.

Shapes: n labels, N samples, V folds, K classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surelabel.data.folds import ALWAYS_SEEN
from surelabel.data.source import Source
from surelabel.inference.prediction_sets import BLOCK, LabelScores
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import join
from surelabel.methods.propagation import smoothed_shares
from surelabel.methods.sure import PRIOR, Sure, by_fold
from surelabel.models.members_head import MembersHead
from surelabel.training.build import build_method
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Joined:
    """How two learners were joined, and how well the labels do without the pool."""

    powers: tuple[float, float]  # of the members, which the pool has taught, and of logistic regression
    linear_nll: float  # of the left-out labels, by logistic regression
    shares_nll: float  # by the shares of the classes alone


@dataclass(frozen=True)
class Learners:
    """What members and linear models predict for the labels that they have not seen, before anything is fitted to it.

    Labels that every member has seen are not in it.
    """

    folds: int
    index: NDArray[np.int64]  # [n], in the pool
    labels: NDArray[np.int64]  # [n]
    fold: NDArray[np.int64]  # [n]
    logs: NDArray[np.float64]  # [2, n, K], log probabilities
    class_weight: NDArray[np.float64]  # [V, K], how much a left-out label counts
    shares: NDArray[np.float64]  # [V, K], of the classes, by the labels outside the fold
    powers: tuple[float, float]  # of the run's answer

    @property
    def weights(self) -> NDArray[np.float64]:
        return np.asarray(self.class_weight[self.fold, self.labels])

    @property
    def joined(self) -> Joined:
        every = np.arange(len(self.labels))
        linear = np.average(self.logs[1, every, self.labels], weights=self.weights)
        shares = np.average(np.log(self.shares[self.fold, self.labels]), weights=self.weights)
        return Joined(self.powers, -float(linear), -float(shares))

    @property
    def scores(self) -> LabelScores:
        """Scores for prediction sets, at powers that no label has chosen."""
        probs = _at_prior(self.logs)[np.arange(len(self.labels)), self.labels]
        return LabelScores(1 - probs, self.fold, self.weights, self.class_weight.mean(0))


def learners(run: TrainedRun) -> Learners:
    """The learners of a run of `sure`; raises a `UserError` for another, or if no label could be left out."""
    method = build_method(run.config)
    if not isinstance(method, Sure):
        raise UserError(f"{run.name} was trained by {run.config.method}, which leaves no labels out: use sure")
    labels = run.data.train.labels[run.labelled]
    fold = method.draw_folds(run.data.train, run.labelled)
    random = run.data.train.at_random(run.labelled)
    counted = (fold != ALWAYS_SEEN) & random
    if not counted.any():
        raise UserError(
            f"{run.name}: no label could be left out, as each class has only one that was drawn at random. Label more"
        )
    head = run.network.head
    assert isinstance(head, MembersHead)
    weight = head.class_weight.cpu().double().numpy()
    shares = (
        np.stack([smoothed_shares(labels[(fold != v) & random], len(run.task.classes)) for v in range(method.folds)])
        * weight
    )
    index, labels, fold = run.labelled[counted], labels[counted], fold[counted]
    probs = by_fold(run.network, run.data.train, index, method.folds, run.config.evaluation.batch)
    logs = np.log(probs[:, np.arange(len(index)), fold])
    shares /= shares.sum(1, keepdims=True)
    members, linear = head.powers.tolist()
    return Learners(method.folds, index, labels, fold, logs, weight, shares, (members, linear))


def prediction_sets(
    run: TrainedRun, source: Source, index: NDArray[np.int64], best: NDArray[np.int64], coverage: float
) -> NDArray[np.bool_]:
    """Which classes are in the set of each sample [N, K]; the most likely one, `best` [N], always is."""
    found, scores = run.learners, run.learners.scores
    scores.check_enough(coverage)
    sets = [np.empty((0, len(run.task.classes)), dtype=np.bool_)]
    for part in _blocks(index):
        probs = by_fold(run.network, source, part, found.folds, run.config.evaluation.batch)
        sets.append(scores.sets(_at_prior(np.log(probs)), coverage))
    together = np.concatenate(sets)
    together[np.arange(len(index)), best] = True
    return together


def _blocks(index: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (index[start : start + BLOCK] for start in range(0, len(index), BLOCK))


def _at_prior(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(join(logs, PRIOR.powers)))
