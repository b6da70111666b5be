"""What was predicted for a run's labels without knowing them: all that tells how far to trust it.

Shapes: M learners, n labels, N samples, V folds, K classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.folds import ALWAYS_SEEN, parts
from surelabel.data.source import Source
from surelabel.inference.cross_validation import variance_of_folds
from surelabel.inference.prediction_sets import BLOCK, LabelScores
from surelabel.inference.suggest import NothingUnlabelled
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import Prior, join
from surelabel.methods.propagation import smoothed_shares
from surelabel.methods.sure import PRIOR as PRIOR_OF_SURE
from surelabel.methods.sure import Sure, by_fold
from surelabel.models.members_head import MembersHead
from surelabel.training.build import build_method
from surelabel.training.fit import fold_of_labels
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError

# Of one over the temperature of a single learner, so that it takes some ten wrong labels to move it far.
PRIOR = Prior(1.0, 0.5, (1.0,))
# Labels that judge have also taught those that judge the others: the variance of a mean over them is about so many
# times that over independent ones (the standard error of the accuracy was 1.2 times the binomial one in trials).
VARIANCE_OF_SURE = 1.5


@dataclass(frozen=True)
class Joined:
    """How two learners were joined, and how well the labels do without the pool."""

    powers: tuple[float, float]  # of the members, which the pool has taught, and of logistic regression
    linear_nll: float  # of the left-out labels, by logistic regression
    shares_nll: float  # by the shares of the classes alone


@dataclass(frozen=True)
class Learners:
    """What M learners predict for labels that they have not seen, before anything is fitted to it.

    Labels that every learner has seen are not in it. What only `sure` has, which joins two learners, may be None.
    """

    index: NDArray[np.int64]  # [n], in the pool
    labels: NDArray[np.int64]  # [n]
    fold: NDArray[np.int64]  # [n]
    log_probs: NDArray[np.float64]  # [M, n, K]
    weights: NDArray[np.float64]  # [n], how much each label counts
    prior: Prior  # of the learners' powers
    pool: Callable[[int], NDArray[np.float64]]  # fold -> log_probs [M, N, K] of unlabelled samples, by its learners
    variance: float  # of a mean over the labels, relative to one over independent predictions
    joined: Joined | None = None
    scores: LabelScores | None = None  # for sets of classes, at powers that no label has chosen


def leaves_out(run: TrainedRun) -> bool:
    """Whether labels were left out in turn: by the members of `sure`, or by further runs."""
    return run.config.method == "sure" or (run.folder is not None and run.folder.crossfit is not None)


def learners(run: TrainedRun) -> Learners:
    """The learners of a run; raises a `UserError` if it left no labels out."""
    if run.config.method == "sure":
        return _of_sure(run)
    if run.folder is None or run.folder.crossfit is None:
        raise UserError(f"{run.name} left no labels out in turn ({run.config.method}): cross-fit it, or use sure")
    return stored_learners(run, run.folder.crossfit[0])


def _of_sure(run: TrainedRun) -> Learners:
    """The members and the linear models."""
    method, source, batch = build_method(run.config), run.data.train, run.config.evaluation.batch
    assert isinstance(method, Sure)
    labels, fold = source.labels[run.labelled], method.draw_folds(source, run.labelled)
    random = source.at_random(run.labelled)
    counted = (fold != ALWAYS_SEEN) & random
    if not counted.any():
        raise UserError(
            f"{run.name}: no label could be left out, as each class has only one that was drawn at random. Label more"
        )
    head = run.network.head
    assert isinstance(head, MembersHead)
    class_weight = head.class_weight.cpu().double().numpy()  # [V, K]
    known = [smoothed_shares(labels[(fold != v) & random], len(run.task.classes)) for v in range(method.folds)]
    shares = np.stack(known) * class_weight
    shares /= shares.sum(1, keepdims=True)

    index, labels, fold = run.labelled[counted], labels[counted], fold[counted]
    every, weights = np.arange(len(index)), class_weight[fold, labels]
    logs = np.log(by_fold(run.network, source, index, method.folds, batch)[:, every, fold])
    members, linear = head.powers.tolist()
    joined = Joined(
        (members, linear),
        -float(np.average(logs[1, every, labels], weights=weights)),
        -float(np.average(np.log(shares[fold, labels]), weights=weights)),
    )
    scores = LabelScores(1 - _at_prior(logs)[every, labels], fold, weights, class_weight.mean(0))

    @cache
    def of_pool() -> NDArray[np.float64]:
        return np.log(by_fold(run.network, source, pool_of(run), method.folds, batch))

    def pool(v: int) -> NDArray[np.float64]:
        return of_pool()[:, :, v]

    return Learners(index, labels, fold, logs, weights, PRIOR_OF_SURE, pool, VARIANCE_OF_SURE, joined, scores)


def stored_learners(run: TrainedRun, folds: int) -> Learners:
    """The runs that left out a fold each: one learner, as it was written down."""
    fold = fold_of_labels(run.config, run.data, run.labelled, folds)
    index, fold = run.labelled[fold != ALWAYS_SEEN], fold[fold != ALWAYS_SEEN]
    log_probs = np.empty((1, len(index), len(run.task.classes)))
    for v in parts(fold):
        stored = _stored(run, v, folds)
        if not np.array_equal(stored["index"].numpy(), index[fold == v]):
            raise UserError(f"{run.path / file_of(v, folds)} is of other labels: remove it, and cross-fit again")
        log_probs[0, fold == v] = stored["log_probs"].numpy()

    def pool(v: int) -> NDArray[np.float64]:
        return _stored(run, v, folds)["pool"].double().numpy()[None]

    random = run.data.train.at_random(index)
    index, fold, log_probs = index[random], fold[random], log_probs[:, random]
    labels, ones = run.data.train.labels[index], np.ones(len(index))
    return Learners(index, labels, fold, log_probs, ones, PRIOR, pool, variance_of_folds(len(parts(fold))))


def file_of(fold: int, folds: int) -> str:
    """The file in the run's folder with what was predicted without this fold, from 0, of so many."""
    return f"crossfit-{fold + 1}-of-{folds}.safetensors"


def _stored(run: TrainedRun, fold: int, folds: int) -> dict[str, Tensor]:
    return RunFolder(run.path).tensors(file_of(fold, folds), "predictions without a fold", "cross-fit it again")


def pool_of(run: TrainedRun) -> NDArray[np.int64]:
    """The unlabelled samples; none if every sample has a label."""
    try:
        return run.unlabelled
    except NothingUnlabelled:
        return np.empty(0, dtype=np.int64)


def label_scores(run: TrainedRun) -> LabelScores:
    """The scores that sets of classes are made by; raises a `UserError` unless the run is of `sure`."""
    method = run.config.method
    scores = run.learners.scores if method == "sure" else None
    if scores is None:
        raise UserError(f"sets of classes are for method sure, and {run.name} was trained by {method}: ask for none")
    return scores


def prediction_sets(
    run: TrainedRun, source: Source, index: NDArray[np.int64], best: NDArray[np.int64], coverage: float
) -> NDArray[np.bool_]:
    """Which classes are in the set of each sample [N, K]; the most likely one, `best` [N], always is."""
    scores = label_scores(run)
    scores.check_enough(coverage)
    sets = [np.empty((0, len(run.task.classes)), dtype=np.bool_)]
    # Whole batches, as the rounding of float32 depends on what is computed together.
    batch = run.config.evaluation.batch
    for part in _blocks(index, max(1, BLOCK // batch) * batch):
        probs = by_fold(run.network, source, part, run.config.sure.folds, batch)
        sets.append(scores.sets(_at_prior(np.log(probs)), coverage))
    together = np.concatenate(sets)
    together[np.arange(len(index)), best] = True
    return together


def _blocks(index: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    return (index[start : start + size] for start in range(0, len(index), size))


def _at_prior(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities by which the two learners of `sure` are joined when no label has been seen."""
    return np.asarray(np.exp(join(logs, PRIOR_OF_SURE.powers)))
