"""Few, odd and wrong labels: the cross-fitted ensemble works, or says what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

from surelabel.config.recipes import table
from surelabel.config.run import CUSTOM
from surelabel.data.arrays.source import SampleSource
from surelabel.data.source import DataSet
from surelabel.inference.trained_run import TrainedRun
from surelabel.inference.trust_words import describe
from surelabel.training.components import Components
from surelabel.training.fit import fit
from surelabel.utils.errors import UserError

pytestmark = pytest.mark.slow
X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)


def trained(samples, labels, steps=150):
    names = [str(k) for k in range(labels.max() + 1)]
    config = replace(table("sure", CUSTOM), steps=steps, threads=1, device="cpu")
    config = replace(
        config,
        network=replace(config.network, name="members-20-32"),
        evaluation=replace(config.evaluation, every=steps),
    )
    data = Components(DataSet("digits", SampleSource(samples, labels, names)))
    return TrainedRun.of(fit(config, console=Console(quiet=True), components=data, save=False))


def first(count, labels=y):
    return np.where(np.arange(len(labels)) < count, labels, -1)


def test_wrong_labels_are_doubted():
    """Of 150 labels 15 are wrong. At least half of those that it doubts are, and it doubts a third of them."""
    labels = first(150)[:900]
    wrong = np.arange(0, 150, 10)
    labels[wrong] = (labels[wrong] + 1) % 10
    run = trained(X[:900], labels)
    known = run.trust.known
    doubted = known.index[known.doubtful()]
    assert np.isin(doubted, wrong).mean() >= 0.5
    assert np.isin(wrong, doubted).mean() >= 1 / 3
    assert (run.pool_prediction.probs.argmax(1).numpy() == y[run.unlabelled]).mean() > 0.7


def test_pool_of_thirty_samples():
    run = trained(X[:30], first(12)[:30], steps=30)
    assert run.pool_prediction.probs.shape == (18, 10)
    said = describe(run.trust, 0.9, [""] * len(run.trust.known.index), run.task.classes)
    assert "95% interval" in said[0]


def test_classes_with_one_label_enter_no_estimate():
    keep = np.flatnonzero((y[:300] < 4) | (np.arange(300) < 40))
    labels = np.where(np.arange(len(keep)) < 60, y[keep], -1)
    labels[np.flatnonzero(labels == 9)[1:]] = -1
    run = trained(X[keep], labels, steps=30)
    assert (labels[run.trust.known.index] != 9).all()
    assert run.trust.known.recall(10)[9] == (0, 0)


def test_one_label_per_class_is_not_judged():
    labels = np.full(300, -1)
    labels[np.unique(y[:300], return_index=True)[1]] = np.arange(10)
    run = trained(X[:300], labels, steps=30)
    assert run.pool_prediction.probs.isfinite().all()
    with pytest.raises(UserError, match="no label could be left out"):
        _ = run.trust


def test_class_that_is_labelled_but_not_in_the_rest_of_the_pool():
    rest = np.flatnonzero((y < 8) & (np.arange(len(y)) >= 80))[:300]
    keep = np.concatenate([np.arange(80), rest])
    run = trained(X[keep], first(80, y[keep]))
    predicted = run.pool_prediction.probs.argmax(1).numpy()
    assert (predicted >= 8).mean() < 0.15  # a fifth of the labels
    assert (predicted == y[keep][run.unlabelled]).mean() > 0.7
