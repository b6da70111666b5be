"""What was predicted for a run's labels without knowing them: all that a judgement of its confidence needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.folds import ALWAYS_SEEN, parts
from surelabel.inference.cross_validation import variance_of_folds
from surelabel.inference.suggest import NothingUnlabelled
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import Prior
from surelabel.methods.sure import PRIOR as PRIOR_OF_SURE
from surelabel.methods.sure import Sure, by_fold
from surelabel.models.members_head import MembersHead
from surelabel.training.build import build_method
from surelabel.training.fit import fold_of_labels
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError

# Of one over the temperature, so that it takes some ten wrong labels to move it far.
PRIOR = Prior((1.0,), (0.5,))


@dataclass(frozen=True)
class Learners:
    """Predictions of M learners for n labels, each by learners that have not seen its fold."""

    index: NDArray[np.int64]  # [n], in the pool
    labels: NDArray[np.int64]  # [n]
    fold: NDArray[np.int64]  # [n]
    log_probs: NDArray[np.float64]  # [M, n, K]
    weights: NDArray[np.float64]  # [n], how much each label counts
    prior: Prior  # of the learners' powers
    pool: Callable[[int], NDArray[np.float64]]  # fold -> log_probs [M, N, K] of unlabelled samples, by its learners
    variance: float = 1.0  # of a mean over the labels, relative to one over independent predictions


def leaves_out(run: TrainedRun) -> bool:
    """Whether labels were left out in turn: by the members of sure, or by further runs."""
    return run.config.method == "sure" or (run.folder is not None and run.folder.crossfit is not None)


def learners_of(run: TrainedRun) -> Learners:
    """What was predicted for the labels without knowing them; raises a `UserError` if that was not done."""
    if run.config.method == "sure":
        return _members(run)
    if run.folder is None or run.folder.crossfit is None:
        raise UserError(f"{run.name} left no labels out in turn ({run.config.method}): cross-fit it, or use sure")
    return stored_learners(run, run.folder.crossfit[0])


def _members(run: TrainedRun) -> Learners:
    """The members of an ensemble, and its linear models."""
    method, source = build_method(run.config), run.data.train
    assert isinstance(method, Sure)
    fold = method.draw_folds(source, run.labelled)
    counted = fold != ALWAYS_SEEN
    index, fold = run.labelled[counted], fold[counted]
    if not len(index):
        raise UserError(f"{run.name}: each class has one label only, so none could be left out. Label more")
    labels, batch, head = source.labels[index], run.config.evaluation.batch, run.network.head
    known = by_fold(run.network, source, index, method.folds, batch)[:, np.arange(len(index)), fold]
    pool = np.log(by_fold(run.network, source, pool_of(run), method.folds, batch))
    assert isinstance(head, MembersHead)
    weights = head.class_weight.cpu().double().numpy()[fold, labels]
    return Learners(index, labels, fold, np.log(known), weights, PRIOR_OF_SURE, lambda v: pool[:, :, v])


def stored_learners(run: TrainedRun, folds: int) -> Learners:
    """The runs that left out a fold each: one learner, as it was written down."""
    fold = fold_of_labels(run.config, run.data, run.labelled, folds)
    counted = fold != ALWAYS_SEEN
    index, fold = run.labelled[counted], fold[counted]
    log_probs = np.empty((1, len(index), len(run.task.classes)))
    for v in parts(fold):
        stored = _stored(run, v, folds)
        if not np.array_equal(stored["index"].numpy(), index[fold == v]):
            raise UserError(f"{run.path / file_of(v, folds)} is of other labels: remove it, and cross-fit again")
        log_probs[0, fold == v] = stored["log_probs"].numpy()

    def pool(v: int) -> NDArray[np.float64]:
        return _stored(run, v, folds)["pool"].double().numpy()[None]

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
