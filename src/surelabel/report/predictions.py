"""Predict a run's data for its report: metrics, bins, confusions and galleries."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.source import UNLABELLED, DataSet
from surelabel.equations import Groups, entropy
from surelabel.inference.suggest import NothingUnlabelled
from surelabel.inference.trained_run import TrainedRun
from surelabel.report.gallery import Gallery, TopPrediction, gallery
from surelabel.report.record import Metrics, Recorded
from surelabel.training import metrics
from surelabel.training.evaluate import fixed_sample, labelled_indices, metrics_on, predict
from surelabel.utils.errors import UserError

POOL_SUBSET = 20_000  # predicted of a pool that is fully labelled


@dataclass(frozen=True)
class ClassRow:
    """One class; unknown values are None."""

    name: str
    labelled: int | None = None  # training labels
    count: int | None = None  # test samples of this class
    predicted: int | None = None  # samples predicted as this class
    accuracy: float | None = None
    precision: float | None = None
    confidence: float | None = None  # mean over the samples of this class or, for a pool, predicted as this class


@dataclass(frozen=True)
class Measured:
    """Results on the whole test set or, without a test set, on the unlabelled pool, and then without metrics."""

    samples: int
    pool: int
    uncertain: Gallery
    classes: list[ClassRow]
    averaged: Metrics | None = None
    raw: Metrics | None = None
    bins: Groups | None = None  # [M]
    confusion: NDArray[np.int64] | None = None  # [K, K], true class by predicted class
    mistakes: Gallery | None = None


def measure(run: TrainedRun, recorded: Recorded) -> Measured:
    """Predict with a run's weights. Raises a `UserError` if its data or weights are missing."""
    return _of_pool(run, recorded) if run.data.test is None else _of_test(run, recorded)


def _of_test(run: TrainedRun, recorded: Recorded) -> Measured:
    data, test, prediction = run.data, run.test, run.test_prediction
    index = labelled_indices(test)
    labels = torch.from_numpy(test.labels[index])
    sums = metrics.calibration_sums(prediction.probs, labels)
    best = TopPrediction.of(prediction)
    n = len(data.classes)
    confusion = np.bincount(n * labels.numpy() + best.predicted, minlength=n**2).reshape(n, n)
    labelled, predicted, right = _labels_of(data, recorded.labelled), confusion.sum(0), confusion.diagonal()
    classes = [
        ClassRow(
            name, int(labelled[k]), row["count"], int(predicted[k]), row["accuracy"],
            float(right[k] / predicted[k]) if predicted[k] else None, row["confidence"],
        )
        for k, (name, row) in enumerate(zip(data.classes, sums.per_class(), strict=True))
    ]  # fmt: skip
    mistaken = np.where(best.predicted == labels.numpy(), -np.inf, best.confidence)
    return Measured(
        samples=len(index),
        pool=len(data.train),
        averaged=metrics.evaluation(prediction.probs, labels),
        raw=recorded.raw or _raw(run, index),
        bins=Groups(*sums.bins),
        confusion=confusion,
        classes=classes,
        mistakes=gallery(test, index, best, mistaken),
        uncertain=gallery(test, index, best, entropy(prediction.probs).numpy()),
    )


def _raw(run: TrainedRun, index: NDArray[np.int64]) -> Metrics | None:
    try:
        return metrics_on(run.raw_network, run.test, index, run.config.evaluation.batch)
    except UserError:
        return None


def _of_pool(run: TrainedRun, recorded: Recorded) -> Measured:
    data = run.data
    try:
        index, prediction = run.unlabelled, run.pool_prediction
    except NothingUnlabelled:
        index = fixed_sample(data.train, POOL_SUBSET)
        prediction = predict(run.network, data.train, index, run.config.evaluation.batch)
    predicted, confidence, _ = best = TopPrediction.of(prediction)
    classes = len(data.classes)
    count = np.bincount(predicted, minlength=classes)
    mean = np.bincount(predicted, confidence, minlength=classes) / np.maximum(count, 1)
    labelled = _labels_of(data, recorded.labelled)
    return Measured(
        samples=len(index),
        pool=len(data.train),
        classes=[
            ClassRow(name, int(labelled[k]), predicted=int(count[k]), confidence=float(mean[k]) if count[k] else None)
            for k, name in enumerate(data.classes)
        ],
        uncertain=gallery(data.train, index, best, entropy(prediction.probs).numpy()),
    )


def _labels_of(data: DataSet, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many labels each class has."""
    labels = data.train.labels[labelled[labelled < len(data.train)]]
    return np.bincount(labels[labels != UNLABELLED], minlength=len(data.classes))
