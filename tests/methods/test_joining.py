import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from surelabel.methods.joining import fit_powers, join


def learners(samples, temperatures, seed=0):
    """Labels drawn from softmax(z), and learners that say softmax(z / T)."""
    random = np.random.default_rng(seed)
    logits = random.normal(scale=2.0, size=(samples, 4))
    probs = np.exp(join(logits[None], np.ones(1)))
    labels = (probs.cumsum(1) > random.random((samples, 1))).argmax(1)
    return np.stack([join(logits[None], np.array([1 / t])) for t in temperatures]), labels


def objective(powers, log_probs, labels):
    """The NLL and the prior, from their definitions."""
    product = np.prod(np.exp(log_probs) ** np.reshape(powers, (-1, 1, 1)), axis=0)
    probs = product / product.sum(1, keepdims=True)
    prior = norm.logpdf(np.log(powers), -np.log(len(powers)), 1).sum()
    return -np.log(probs[np.arange(len(labels)), labels]).sum() - prior


def test_fit_powers_finds_the_minimum_of_the_definition():
    log_probs, labels = learners(60, [0.5, 3.0])
    log_probs[1] = log_probs[1][:, [1, 0, 2, 3]]  # another learner, often wrong
    best = minimize(lambda logs: objective(np.exp(logs), log_probs, labels), np.zeros(2), method="Nelder-Mead")
    found = fit_powers(log_probs, labels)
    assert objective(found, log_probs, labels) == pytest.approx(best.fun, abs=1e-5)
    assert found == pytest.approx(np.exp(best.x), rel=1e-2)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_fit_powers_recovers_a_temperature(temperature):
    # The standard error of a temperature from 5,000 such labels is about 2 %.
    log_probs, labels = learners(5000, [temperature])
    assert fit_powers(log_probs, labels) == pytest.approx([temperature], rel=0.08)


def test_fit_powers_of_no_labels_are_equal():
    assert fit_powers(np.zeros((3, 0, 4)), np.zeros(0, dtype=np.int64)) == pytest.approx([1 / 3] * 3)


def test_fit_powers_stay_bounded_when_all_are_right():
    certain = np.log(np.tile([0.6, 0.4], (1, 50, 1)))
    assert fit_powers(certain, np.zeros(50, dtype=np.int64))[0] < np.exp(5)
