"""What a run's weights say of its data: figures, bins, confusions, and the samples worth a look."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.source import UNLABELLED, DataSet
from surelabel.equations import Groups, entropy
from surelabel.inference.suggest import NothingUnlabelled
from surelabel.inference.trained_run import TrainedRun
from surelabel.report.gallery import Gallery, TopPrediction, gallery
from surelabel.report.record import Metrics, Recorded
from surelabel.training import metrics
from surelabel.training.evaluate import fixed_sample, labelled_indices, metrics_on, predict
from surelabel.utils.errors import UserError

# Of a pool in which every sample was trained on; the most uncertain of these are uncertain enough.
POOL_PART = 20_000


@dataclass(frozen=True)
class ClassRow:
    """One class; what is not known is None."""

    name: str
    labelled: int | None = None  # labels that training used
    count: int | None = None  # test samples of this class
    predicted: int | None = None  # samples that were given this class
    accuracy: float | None = None  # share of the class that was recognised
    precision: float | None = None  # share of what was given this class that belongs to it
    confidence: float | None = None  # mean over the samples of this class, or, in a pool, given this class


@dataclass(frozen=True)
class Measured:
    """Of the whole test set; or, where there is none, of the unlabelled pool, and then without figures."""

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
    """Predict with a run's weights. Raises a `UserError` where its data or its weights are not there any more."""
    return _of_pool(run, recorded) if run.data.test is None else _of_test(run, recorded)


def _of_test(run: TrainedRun, recorded: Recorded) -> Measured:
    test, prediction = run.test, run.test_prediction
    index = labelled_indices(test)
    labels = torch.from_numpy(test.labels[index])
    sums = metrics.calibration_sums(prediction.probs, labels)
    confusion = _confusion(prediction.probs, labels)
    best = TopPrediction.of(prediction)
    mistaken = np.where(best.predicted == labels.numpy(), -np.inf, best.confidence)
    return Measured(
        samples=len(index),
        pool=len(run.data.train),
        averaged=metrics.evaluation(prediction.probs, labels),
        raw=recorded.raw or _raw(run, index),
        bins=Groups(*sums.bins),
        confusion=confusion,
        classes=_class_rows(run.data, recorded.labelled, sums.per_class(), confusion),
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
        index = fixed_sample(data.train, POOL_PART)
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


def _confusion(probs: Tensor, labels: Tensor) -> NDArray[np.int64]:
    classes = probs.shape[1]
    return torch.bincount(labels * classes + probs.argmax(-1), minlength=classes**2).view(classes, classes).numpy()


def _labels_of(data: DataSet, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of these training samples each class has."""
    labels = data.train.labels[labelled[labelled < len(data.train)]]
    return np.bincount(labels[labels != UNLABELLED], minlength=len(data.classes))


def _class_rows(
    data: DataSet, labelled: NDArray[np.int64], found: list[metrics.ClassMetrics], confusion: NDArray[np.int64]
) -> list[ClassRow]:
    predicted = confusion.sum(0)
    right = confusion.diagonal()
    labels = _labels_of(data, labelled)
    return [
        ClassRow(
            name, int(labels[k]), row["count"], int(predicted[k]), row["accuracy"],
            float(right[k] / predicted[k]) if predicted[k] else None, row["confidence"],
        )
        for k, (name, row) in enumerate(zip(data.classes, found, strict=True))
    ]  # fmt: skip
