"""What held-out labels put right: confidences by a temperature, and sets of classes that hold the right one as often as
asked.

Shapes: N samples, K classes. `probs` are the network's own probabilities of samples that it learnt no label of.
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

with optional_import("calibration", "calibration by held-out labels"):
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """Fitted to held-out labels; applied to the network's probabilities [N, K] of any other samples."""

    coverage: float  # the share of sets that should hold the right class
    temperature: float  # above 1 lowers confidences
    scaler: Any  # scikit-learn's; None leaves the probabilities as they are
    conformal: Any  # MAPIE's

    def probs(self, probs: Tensor) -> Tensor:
        """softmax(log(probs) / temperature) [N, K], in float64: the order of the classes stays as it was."""
        given = _normalised(probs)
        return torch.from_numpy(given if self.scaler is None else self.scaler.predict_proba(given))

    def sets(self, probs: Tensor) -> Tensor:
        """Which classes are in each sample's set [N, K]; the likeliest always is, so that no set is empty."""
        given = _normalised(probs)
        _, member = self.conformal.predict_set(given)
        top = given.argmax(axis=1)
        member[np.arange(len(given)), top] = True
        return torch.from_numpy(member[:, :, 0])


@dataclass(frozen=True)
class ClassCoverage:
    """Of the samples of one class: how many, the share whose set holds it, and the mean size (None of no sample)."""

    name: str
    count: int
    coverage: float | None
    set_size: float | None


@dataclass(frozen=True)
class CalibrationMetrics:
    """Samples that nothing was fitted to, before and after calibration."""

    samples: int
    accuracy: float
    ece_before: float
    ece_after: float
    nll_before: float
    nll_after: float
    coverage: float  # the share of sets that hold the right class
    set_size: float
    classes: tuple[ClassCoverage, ...]


@dataclass(frozen=True)
class CalibrationReport:
    """What was fitted to how many labels, and how it does: by cross-fitting on these, and on the rest of a test set."""

    labels: int
    coverage: float  # asked for
    temperature: float
    held_out: CalibrationMetrics
    rest: CalibrationMetrics | None = None
    skipped: tuple[tuple[str, str], ...] = ()  # held-out files that could not be read, each with the reason


def fit_calibration(probs: Tensor, labels: Tensor, coverage: float) -> Calibration:
    """Fit a temperature and a conformal threshold to held-out samples. probs [N, K], labels [N].

    The sets are made from the network's own probabilities, not from those that the temperature gives: their guarantee
    needs scores that no held-out label has touched.
    """
    given, classes = _normalised(probs), labels.numpy()
    with warnings.catch_warnings():
        # Of classes that the held-out samples lack, and of weights that the frozen probabilities cannot use.
        warnings.simplefilter("ignore")
        scaler = _scaler(given, classes)
        conformal = SplitConformalClassifier(_Given(given.shape[1]), coverage, "lac").conformalize(given, classes)
    beta = 1.0 if scaler is None else float(scaler.calibrated_classifiers_[0].calibrators[0].beta_)
    return Calibration(coverage, 1 / beta, scaler, conformal)


def cross_fitted(probs: Tensor, labels: Tensor, coverage: float, names: Sequence[str]) -> CalibrationMetrics:
    """The figures of held-out samples, each fifth of them calibrated by the other four. probs [N, K], labels [N]."""
    fold = torch.from_numpy(generator(0, "calibration folds").permutation(len(labels)) % FOLDS)
    after, sets = torch.empty(probs.shape, dtype=torch.float64), torch.empty(probs.shape, dtype=torch.bool)
    for number in range(FOLDS):
        here = fold == number
        if here.any():
            fitted = fit_calibration(probs[~here], labels[~here], coverage)
            after[here], sets[here] = fitted.probs(probs[here]), fitted.sets(probs[here])
    return metrics_of(probs, after, sets, labels, names)


def metrics_of(before: Tensor, after: Tensor, sets: Tensor, labels: Tensor, names: Sequence[str]) -> CalibrationMetrics:
    """The figures of samples with probabilities before and after [N, K], sets [N, K] and labels [N]."""
    plain, calibrated = metrics.evaluation(before, labels), metrics.evaluation(after, labels)
    held, size = sets[torch.arange(len(labels)), labels].double(), sets.sum(dim=1).double()
    of = torch.zeros(3, len(names), dtype=torch.float64)
    of.index_add_(1, labels, torch.stack([torch.ones_like(held), held, size]))
    classes = [
        ClassCoverage(name, int(count), covered / count if count else None, sizes / count if count else None)
        for name, (count, covered, sizes) in zip(names, of.T.tolist(), strict=True)
    ]
    return CalibrationMetrics(
        len(labels), plain["accuracy"], plain["ece"], calibrated["ece"], plain["nll"], calibrated["nll"],
        float(held.mean()), float(size.mean()), tuple(classes),
    )  # fmt: skip


def check_meaningful(coverage: float) -> None:
    """Raise for a coverage that no sets have, or none would want."""
    if not 0.5 <= coverage < 1:
        raise UserError(f"coverage {coverage} is the share of sets to be right: give at least 0.5, and less than 1")


def check_enough(labels: int, coverage: float) -> None:
    """Raise for a coverage that so many held-out labels cannot promise."""
    needed = labels_needed(coverage)
    if labels < needed:
        reached = max((c for c in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5) if labels_needed(c) <= labels), default=None)
        instead = "" if reached is None else f", or ask for a coverage of {reached}"
        raise UserError(
            f"a coverage of {coverage} needs at least {needed} held-out labels ({_smallest(coverage)} for the sets, in "
            f"each of the {FOLDS} parts by which they are checked), but there are {labels}: label more{instead}"
        )


def labels_needed(coverage: float) -> int:
    """The fewest held-out labels that give sets of this coverage, with a fifth of them left out as well."""
    return max(FOLDS, ceil(Fraction(_smallest(coverage) * FOLDS, FOLDS - 1)))


def _smallest(coverage: float) -> int:
    """The fewest labels for which MAPIE makes sets: 1 / (1 - coverage), counted in the decimals as written."""
    return ceil(1 / (1 - Fraction(str(coverage))))


def _scaler(probs: NDArray[np.float64], labels: NDArray[np.int64]) -> CalibratedClassifierCV | None:
    """A temperature that minimises the NLL; none where every sample is right, as ever sharper would then be better."""
    if (probs.argmax(axis=1) == labels).all():
        return None
    count, classes = probs.shape
    # scikit-learn counts as classes those that occur: a sample of each is added, of no weight.
    probs = np.concatenate([probs, np.full((classes, classes), 1 / classes)])
    labels = np.concatenate([labels, np.arange(classes)])
    weight = np.concatenate([np.ones(count), np.zeros(classes)])
    everyone = np.arange(len(labels))  # nothing is trained, so that no sample need be left out
    scaler = CalibratedClassifierCV(
        FrozenEstimator(_Given(classes)), method="temperature", cv=[(everyone, everyone)], ensemble=False
    )
    return scaler.fit(probs, labels, sample_weight=weight)


class _Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier in scikit-learn's eyes, whose samples are their own probabilities."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, probs: NDArray[np.float64], labels: NDArray[np.int64]) -> "_Given":
        return self

    def predict(self, probs: NDArray[np.float64]) -> NDArray[np.int64]:
        likeliest: NDArray[np.int64] = probs.argmax(axis=1)
        return likeliest

    def predict_proba(self, probs: NDArray[np.float64]) -> NDArray[np.float64]:
        return probs


def _normalised(probs: Tensor) -> NDArray[np.float64]:
    """In float64, where a sum is 1 to more digits than scikit-learn and MAPIE look at."""
    exact = probs.double()
    normalised: NDArray[np.float64] = (exact / exact.sum(dim=1, keepdim=True)).numpy()
    return normalised
