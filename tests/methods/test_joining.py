import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from surelabel.methods.joining import Prior, equal, fit_powers, join


def learners(samples, temperatures, seed=0):
    """Labels drawn from softmax(z), and learners that say softmax(z / T)."""
    random = np.random.default_rng(seed)
    logits = random.normal(scale=2.0, size=(samples, 4))
    probs = np.exp(join(logits[None], np.ones(1)))
    labels = (probs.cumsum(1) > random.random((samples, 1))).argmax(1)
    return np.stack([join(logits[None], np.array([1 / t])) for t in temperatures]), labels


def objective(found, log_probs, labels, prior):
    """The NLL and the prior of log s and z, from their definitions."""
    weights = np.array(prior.shares) * np.exp(found[1:])
    powers = prior.scale * np.exp(found[0]) * weights / weights.sum()
    product = np.prod(np.exp(log_probs) ** np.reshape(powers, (-1, 1, 1)), axis=0)
    probs = product / product.sum(1, keepdims=True)
    of_prior = norm.logpdf(found[0], 0, prior.scale_std) + norm.logpdf(found[1:], 0, prior.shares_std).sum()
    return -np.log(probs[np.arange(len(labels)), labels]).sum() - of_prior, powers


@pytest.mark.parametrize("prior", [Prior(0.8, 0.3, (0.6, 0.4)), Prior(1.0, 0.5, (1.0,))])
def test_fit_powers_finds_the_minimum_of_the_definition(prior):
    log_probs, labels = learners(60, [0.5, 3.0])
    log_probs[1] = log_probs[1][:, [1, 0, 2, 3]]  # another learner, often wrong
    log_probs = log_probs[: len(prior.shares)]
    search = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 5000}
    best = minimize(
        lambda found: objective(found, log_probs, labels, prior)[0],
        np.zeros(1 + len(prior.shares)),
        method="Nelder-Mead",
        options=search,
    )
    assert fit_powers(log_probs, labels, prior) == pytest.approx(
        objective(best.x, log_probs, labels, prior)[1], rel=1e-3
    )


def test_fit_powers_of_weighted_labels_is_that_of_repeated_ones():
    log_probs, labels = learners(30, [0.5, 3.0])
    twice = np.concatenate([np.arange(30), np.arange(10)])
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    found = fit_powers(log_probs, labels, equal(2), weights)
    assert found == pytest.approx(fit_powers(log_probs[:, twice], labels[twice], equal(2)), rel=1e-3)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_fit_powers_recovers_a_temperature(temperature):
    # The standard error of a temperature from 5,000 such labels is about 2 %.
    log_probs, labels = learners(5000, [temperature])
    assert fit_powers(log_probs, labels, equal(1)) == pytest.approx([temperature], rel=0.08)


def test_fit_powers_of_no_labels_are_equal():
    assert fit_powers(np.zeros((3, 0, 4)), np.zeros(0, dtype=np.int64), equal(3)) == pytest.approx([1 / 3] * 3)


def test_fit_powers_stay_bounded_when_all_are_right():
    certain = np.log(np.tile([0.6, 0.4], (1, 50, 1)))
    assert fit_powers(certain, np.zeros(50, dtype=np.int64), equal(1))[0] < np.exp(5)
