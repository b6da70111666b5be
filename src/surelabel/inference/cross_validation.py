"""Estimate the accuracy of a classifier on features from its few labels alone, by cross-validation."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from surelabel.data.holdout import Fold, choose_held_out
from surelabel.data.source import Source
from surelabel.utils import devices
from surelabel.utils.intervals import wilson

FOLDS = 5
INVERSE_L2 = 50.0  # for the mean loss; strong, as there are more weights than labels
MOST_LABELS = 2000


@dataclass(frozen=True)
class Estimate:
    """Cross-validation result: `right` of `labels` were predicted correctly, each without its fold."""

    right: int
    labels: int
    folds: int = FOLDS

    @property
    def accuracy(self) -> float:
        return self.right / self.labels

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval with a reduced sample size, because folds share training labels."""
        return wilson(self.accuracy, self.labels / variance_of_folds(self.folds))


def variance_of_folds(folds: int) -> float:
    """The variance of a mean over labels that were left out in so many folds, relative to independent predictions.

    The folds share training labels: it is 1 + k/(k − 1) (Nadeau and Bengio, 2003).
    """
    return 1 + folds / (folds - 1)


def linear_probe(source: Source, labelled: NDArray[np.int64], seed: int) -> Estimate:
    """Cross-validate logistic regression on frozen features: takes seconds and needs no trained run.

    Suggested labels are trained on and not tested on, as they are hard ones.
    """
    labels, labelled = source.labels, _at_most(labelled)
    random = labelled[source.at_random(labelled)]
    folds = min(FOLDS, len(random))
    right = 0
    with devices.one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that did not converge
        for part in range(folds):
            held = choose_held_out(labels, random, Fold(part + 1, folds), seed, source.classes)
            kept = np.setdiff1d(labelled, held)
            model = linear_model(len(labelled)).fit(source.samples(kept), labels[kept])
            right += int((model.predict(source.samples(held)) == labels[held]).sum())
    return Estimate(right, len(random), folds)


def linear_model(labels: int) -> Pipeline:
    """Standardisation and logistic regression, regularised for this number of labels."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=INVERSE_L2 / labels, max_iter=1000))


def _at_most(labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most MOST_LABELS labelled samples, evenly spaced, to take only seconds."""
    return labelled[:: -(-len(labelled) // MOST_LABELS)]
