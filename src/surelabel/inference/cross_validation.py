"""Estimate the accuracy of a run from its few labels alone, by cross-validation."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from surelabel.config.run import RunConfig
from surelabel.data.holdout import Fold, choose_held_out
from surelabel.data.source import Source
from surelabel.inference.trained_run import TrainedRun
from surelabel.training import metrics
from surelabel.training.evaluate import labelled_indices
from surelabel.utils import devices

FOLDS = 5
Z95 = 1.96  # normal quantile for 95 %
INVERSE_L2 = 50.0  # for the mean loss; strong, as there are more weights than labels
MOST_LABELS = 2000


@dataclass(frozen=True)
class Estimate:
    """Cross-validation result: `right` of `labels` were predicted correctly, each without its fold."""

    right: int
    labels: int
    ece: float | None = None
    folds: int = FOLDS

    @property
    def accuracy(self) -> float:
        return self.right / self.labels

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval with a reduced sample size, because folds share training labels.

        With k folds the variance is 1 + k/(k − 1) times that of independent samples (Nadeau and
        Bengio, 2003).
        """
        return wilson(self.accuracy, self.labels / (1 + self.folds / (self.folds - 1)))


def wilson(fraction: float, count: float) -> tuple[float, float]:
    """95 % Wilson interval of a fraction of `count` samples."""
    spread = Z95**2 / count
    centre = (fraction + spread / 2) / (1 + spread)
    half = Z95 * sqrt(fraction * (1 - fraction) / count + spread / (4 * count)) / (1 + spread)
    return centre - half, centre + half


def linear_probe(source: Source, labelled: NDArray[np.int64], seed: int) -> Estimate:
    """Cross-validate logistic regression on frozen features: takes seconds and needs no trained run."""
    labels, labelled = source.labels, _at_most(labelled)
    folds = min(FOLDS, len(labelled))
    fold = np.empty(len(labelled), dtype=np.int64)
    for part in range(folds):
        held = choose_held_out(labels, labelled, Fold(part + 1, folds), seed, source.classes)
        fold[np.searchsorted(labelled, held)] = part
    with devices.one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class with one label is missing from one training split
        probs = cross_val_predict(
            linear_model(len(labelled)),
            source.samples(labelled),
            labels[labelled],
            cv=PredefinedSplit(fold),
            method="predict_proba",
        )
    _, true = np.unique(labels[labelled], return_inverse=True)
    return _estimate(torch.from_numpy(probs), torch.from_numpy(true), folds)


def linear_model(labels: int) -> Pipeline:
    """Standardisation and logistic regression, regularised for this number of labels."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_L2 / labels, max_iter=1000))


def retrain(run: TrainedRun, folds: int, train: Callable[[RunConfig], TrainedRun]) -> Estimate:
    """Cross-validate the run itself: train it `folds` times, each in one process and without one fold."""
    config = replace(run.config, devices=1, nodes=1)
    folds = min(folds, len(run.labelled))
    probs, labels = [], []
    for part in range(1, folds + 1):
        out = str(Path(run.path, f"cv-{part}-of-{folds}"))
        fold = train(replace(config, holdout=f"{part}/{folds}", out=out))
        probs.append(fold.test_prediction.probs)
        labels.append(torch.from_numpy(fold.test.labels[labelled_indices(fold.test)]))
    return _estimate(torch.cat(probs), torch.cat(labels), folds)


def _estimate(probs: Tensor, labels: Tensor, folds: int) -> Estimate:
    found = metrics.evaluation(probs, labels)
    return Estimate(round(found["accuracy"] * len(labels)), len(labels), found["ece"], folds)


def _at_most(labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most MOST_LABELS labelled samples, evenly spaced, to take only seconds."""
    return labelled[:: -(-len(labelled) // MOST_LABELS)]
