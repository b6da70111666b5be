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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn import functional

from surelabel.config.run import RunConfig
from surelabel.data.holdout import Fold, choose_held_out
from surelabel.data.source import Source
from surelabel.inference.trained_run import TrainedRun
from surelabel.training import metrics
from surelabel.training.evaluate import labelled_indices
from surelabel.utils import devices
from surelabel.utils.errors import UserError

FOLDS = 5
Z95 = 1.96  # normal quantile for 95 %
INVERSE_L2 = 50.0  # for the mean loss; strong, as there are more weights than labels
MOST_LABELS = 2000
MOST_OOD, OOD_QUANTILE = 0.25, 0.05


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
    """Cross-validate logistic regression on frozen features: takes seconds and needs no trained run.

    Suggested labels are trained on and not tested on, as they are hard ones.
    """
    labels, labelled = source.labels, _at_most(labelled)
    random = labelled[source.at_random(labelled)]
    folds = min(FOLDS, len(random))
    tested, probs = [], []
    with devices.one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that did not converge
        for part in range(folds):
            held = choose_held_out(labels, random, Fold(part + 1, folds), seed, source.classes)
            kept = np.setdiff1d(labelled, held)
            model = linear_model(len(labelled)).fit(source.samples(kept), labels[kept])
            found = np.zeros((len(held), len(source.classes)))  # a class with one label is missing from one part
            found[:, model.classes_] = model.predict_proba(source.samples(held))
            tested.append(held)
            probs.append(found)
    return _estimate(torch.from_numpy(np.concatenate(probs)), torch.from_numpy(labels[np.concatenate(tested)]), folds)


def linear_model(labels: int) -> Pipeline:
    """Standardisation and logistic regression, regularised for this number of labels."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_L2 / labels, max_iter=1000))


def retrain(run: TrainedRun, folds: int, train: Callable[[RunConfig], TrainedRun]) -> Estimate:
    """Cross-validate the run itself: train it `folds` times, each in one process and without one fold."""
    config = replace(run.config, devices=1, nodes=1)
    groups, random = run.data.train.groups, run.labelled[run.data.train.at_random(run.labelled)]
    parts = len(random) if groups is None else len(np.unique(groups[random]))
    if parts < 2:
        raise UserError("cross-validation needs labels in two groups of rows or more, and all labels are in one")
    folds = min(folds, parts)
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


def ood_fraction(source: Source, labelled: NDArray[np.int64]) -> float:
    """The fraction of the pool that looks out of distribution with respect to the labelled samples.

    Similarity is the cosine of centred features. A pool sample counts as out of distribution if its
    nearest labelled sample is less similar than 95 % of labelled samples are to their nearest of the
    same class. A pool distributed like the labelled samples has about 5 %.
    """
    pool = torch.from_numpy(np.setdiff1d(np.arange(len(source)), labelled))
    labelled = _at_most(labelled)
    if not len(pool):
        return 0.0
    rows = torch.from_numpy(np.array(source.features))
    unit = functional.normalize(rows - rows.mean(0), dim=1)
    labels = torch.from_numpy(source.labels[labelled])
    known = unit[labelled]
    among = known @ known.T
    among[(labels[:, None] != labels) | torch.eye(len(labels), dtype=torch.bool)] = -1
    nearest = among.max(1).values
    nearest = nearest[nearest > -1]
    if len(nearest) < 10:
        return 0.0  # too few for a quantile
    threshold = nearest.quantile(OOD_QUANTILE)
    similarity = torch.cat([(part @ known.T).max(1).values for part in torch.split(unit[pool], 4096)])
    return float((similarity < threshold).double().mean())
