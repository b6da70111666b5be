"""Methods beside each other, on the same samples and the same few labels: what the examples with tables share."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import t
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold
from sklearn.semi_supervised import SelfTrainingClassifier

from surelabel.training.metrics import evaluation

# The probabilities [N, K] of all samples, from the labels [N] of which most are -1, and a seed.
Method = Callable[[np.ndarray, int], np.ndarray]


def logistic(rows: Any) -> Method:
    """Logistic regression, its penalty chosen by five-fold cross-validation."""
    return _supervised(
        rows, lambda folds: LogisticRegressionCV(Cs=np.logspace(-4, 4, 9), cv=folds, scoring="neg_log_loss")
    )


def calibrated(rows: Any) -> Method:
    """Logistic regression, calibrated by Platt's sigmoid on five folds."""
    return _supervised(rows, lambda folds: CalibratedClassifierCV(LogisticRegression(), cv=folds, ensemble=False))


def self_training(rows: Any) -> Method:
    """Logistic regression that learns its predictions of confidence 0.75 or more, again and again."""

    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        return SelfTrainingClassifier(LogisticRegression()).fit(rows, labels).predict_proba(rows)

    return probs


def _supervised(rows: Any, make: Callable[[Any], Any]) -> Method:
    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        known = np.flatnonzero(labels >= 0)
        # Not stratified, and as a list, which scikit-learn does not check: a class may have a single label.
        folds = list(KFold(5, shuffle=True, random_state=0).split(known))
        return make(folds).fit(rows[known], labels[known]).predict_proba(rows)

    return probs


def compare(title: str, methods: Mapping[str, Method], truth: np.ndarray, count: int, draws: int) -> None:
    """Print a Markdown table: accuracy and ECE on the unlabelled samples, means with 95 % intervals over draws."""
    print(f"\n{title}, {len(truth):,} samples, {count} labels, {draws} draws\n\n| | accuracy | ECE |\n|---|---|---|")
    for name, method in methods.items():
        found = []
        for draw in range(draws):
            labels = drawn(truth, count, draw)
            rest = np.flatnonzero(labels < 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # few labels of a class, steps that did not converge
                probs = method(labels, draw)[rest]
            metrics = evaluation(torch.from_numpy(probs).double(), torch.from_numpy(truth[rest]))
            found.append((100 * metrics["accuracy"], metrics["ece"]))
        accuracy, ece = zip(*found, strict=True)
        print(f"| {name} | {_mean(accuracy, 1)} % | {_mean(ece, 3)} |", flush=True)


def drawn(truth: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The labels [N] of `count` samples drawn at random, such that each class has one; -1 for the others."""
    random, labels = np.random.default_rng(seed), np.full(len(truth), -1)
    while len(np.unique(truth[chosen := random.permutation(len(truth))[:count]])) < truth.max() + 1:
        pass
    labels[chosen] = truth[chosen]
    return labels


def _mean(values: tuple[float, ...], digits: int) -> str:
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"
