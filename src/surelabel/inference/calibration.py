"""Calibrate on held-out labels: temperature scaling and conformal prediction sets.

Shapes: N samples, K classes. `probs` are the network's uncalibrated probabilities.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.training import metrics
from surelabel.utils.errors import UserError, optional_import
from surelabel.utils.rng import generator

with optional_import("calibration", "calibration"):
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """A temperature and a conformal threshold, fitted to held-out labels."""

    coverage: float  # the fraction of sets that should contain the true class
    temperature: float  # above 1 lowers the confidence
    scaler: Any  # from scikit-learn; None leaves the probabilities as they are
    conformal: Any  # from MAPIE

    def probs(self, probs: Tensor) -> Tensor:
        """Calibrated probabilities softmax(log(probs) / temperature) [N, K], in float64."""
        given = _normalised(probs)
        return torch.from_numpy(given if self.scaler is None else self.scaler.predict_proba(given))

    def sets(self, probs: Tensor) -> Tensor:
        """Which classes are in each prediction set [N, K]; the most likely class always is."""
        given = _normalised(probs)
        _, member = self.conformal.predict_set(given)
        member[np.arange(len(given)), given.argmax(axis=1)] = True
        return torch.from_numpy(member[:, :, 0])


@dataclass(frozen=True)
class ClassCoverage:
    """Coverage and mean set size over the `count` samples of one class; None where there are none."""

    name: str
    count: int
    coverage: float | None
    set_size: float | None


@dataclass(frozen=True)
class CalibrationMetrics:
    """Metrics before and after calibration, on samples that it was not fitted to."""

    samples: int
    accuracy: float
    ece_before: float
    ece_after: float
    nll_before: float
    nll_after: float
    coverage: float  # the fraction of sets that contain the true class
    set_size: float
    classes: tuple[ClassCoverage, ...]


@dataclass(frozen=True)
class CalibrationReport:
    """A fitted calibration and its metrics."""

    labels: int  # held out
    coverage: float  # asked for
    temperature: float
    held_out: CalibrationMetrics  # cross-fitted
    rest: CalibrationMetrics | None = None  # on the rest of the test set
    skipped: tuple[tuple[str, str], ...] = ()  # unreadable files, each with the reason


def fit_calibration(probs: Tensor, labels: Tensor, coverage: float) -> Calibration:
    """Fit a temperature and a conformal threshold to held-out samples. probs [N, K], labels [N].

    The sets use the uncalibrated probabilities: their guarantee needs scores that do not depend on
    the held-out labels, and the temperature does.
    """
    given, classes = _normalised(probs), labels.numpy()
    with warnings.catch_warnings():
        # About classes without a held-out label, and about sample weights that _Given ignores.
        warnings.simplefilter("ignore")
        scaler = _scaler(given, classes)
        conformal = SplitConformalClassifier(_Given(given.shape[1]), coverage, "lac").conformalize(given, classes)
    beta = 1.0 if scaler is None else float(scaler.calibrated_classifiers_[0].calibrators[0].beta_)
    return Calibration(coverage, 1 / beta, scaler, conformal)


def cross_fitted(probs: Tensor, labels: Tensor, coverage: float, names: Sequence[str]) -> CalibrationMetrics:
    """Metrics of held-out samples, each fold calibrated on the others. probs [N, K], labels [N]."""
    fold = torch.from_numpy(generator(0, "calibration folds").permutation(len(labels)) % FOLDS)
    after, sets = torch.empty(probs.shape, dtype=torch.float64), torch.empty(probs.shape, dtype=torch.bool)
    for number in range(FOLDS):
        here = fold == number
        fitted = fit_calibration(probs[~here], labels[~here], coverage)
        after[here], sets[here] = fitted.probs(probs[here]), fitted.sets(probs[here])
    return metrics_of(probs, after, sets, labels, names)


def metrics_of(before: Tensor, after: Tensor, sets: Tensor, labels: Tensor, names: Sequence[str]) -> CalibrationMetrics:
    """Metrics from probabilities before and after [N, K], prediction sets [N, K] and labels [N]."""
    plain, calibrated = metrics.evaluation(before, labels), metrics.evaluation(after, labels)
    covered, size = sets[torch.arange(len(labels)), labels].double(), sets.sum(dim=1).double()
    sums = torch.zeros(3, len(names), dtype=torch.float64)
    sums.index_add_(1, labels, torch.stack([torch.ones_like(covered), covered, size]))
    classes = [
        ClassCoverage(name, int(count), hits / count if count else None, sizes / count if count else None)
        for name, (count, hits, sizes) in zip(names, sums.T.tolist(), strict=True)
    ]
    return CalibrationMetrics(
        len(labels), plain["accuracy"], plain["ece"], calibrated["ece"], plain["nll"], calibrated["nll"],
        float(covered.mean()), float(size.mean()), tuple(classes),
    )  # fmt: skip


def check_meaningful(coverage: float) -> None:
    """Raise unless 0.5 ≤ coverage < 1."""
    if not 0.5 <= coverage < 1:
        raise UserError(f"coverage must be at least 0.5 and less than 1, not {coverage}")


def check_enough(labels: int, coverage: float) -> None:
    """Raise if this number of held-out labels cannot guarantee the coverage."""
    needed = labels_needed(coverage)
    if labels < needed:
        reached = max((c for c in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5) if labels_needed(c) <= labels), default=None)
        instead = "" if reached is None else f", or lower the coverage to {reached}"
        raise UserError(
            f"a coverage of {coverage} needs at least {needed} held-out labels, but there are {labels}: "
            f"label more{instead}"
        )


def labels_needed(coverage: float) -> int:
    """The fewest held-out labels for this coverage, such that cross-fitting has enough as well."""
    smallest = ceil(1 / (1 - Fraction(str(coverage))))  # that MAPIE accepts; exact, unlike floats
    return max(FOLDS, ceil(Fraction(smallest * FOLDS, FOLDS - 1)))


def _scaler(probs: NDArray[np.float64], labels: NDArray[np.int64]) -> CalibratedClassifierCV | None:
    """Fit the temperature that minimises the NLL; None if all samples are right (it would go to 0)."""
    if (probs.argmax(axis=1) == labels).all():
        return None
    count, classes = probs.shape
    # scikit-learn infers the classes from the labels: add one sample of each, with zero weight.
    probs = np.concatenate([probs, np.full((classes, classes), 1 / classes)])
    labels = np.concatenate([labels, np.arange(classes)])
    weight = np.concatenate([np.ones(count), np.zeros(classes)])
    every = np.arange(len(labels))  # the estimator is not trained, so no sample has to be left out
    scaler = CalibratedClassifierCV(
        FrozenEstimator(_Given(classes)), method="temperature", cv=[(every, every)], ensemble=False
    )
    return scaler.fit(probs, labels, sample_weight=weight)


class _Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier whose inputs are the probabilities that it predicts."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, probs: NDArray[np.float64], labels: NDArray[np.int64]) -> "_Given":
        return self

    def predict(self, probs: NDArray[np.float64]) -> NDArray[np.int64]:
        classes: NDArray[np.int64] = probs.argmax(axis=1)
        return classes

    def predict_proba(self, probs: NDArray[np.float64]) -> NDArray[np.float64]:
        return probs


def _normalised(probs: Tensor) -> NDArray[np.float64]:
    """Rows that sum to 1 in float64, as exactly as scikit-learn and MAPIE check."""
    exact = probs.double()
    normalised: NDArray[np.float64] = (exact / exact.sum(dim=1, keepdim=True)).numpy()
    return normalised
