from collections import deque

import numpy as np
import pytest
import torch

from surelabel.methods.selection import Confidence, Uncertainty
from surelabel.models.prediction import Prediction
from surelabel.utils.errors import UserError
from tests.helpers.runs import POOL


def test_confidence_accepts_from_the_threshold():
    probs = torch.tensor([[0.5, 0.5], [0.75, 0.25], [0.1, 0.9], [0.26, 0.74]])
    mask, state = Confidence(0.75)(Prediction(probs), Confidence(0.75).init(POOL), step=0)
    assert mask.tolist() == [False, True, True, False]
    assert state == {}


def test_confidence_sharpened_accepts_more():
    probs = torch.tensor([[0.6, 0.4], [0.5, 0.5]])
    sharpened = probs**2.5 / (probs**2.5).sum(1, keepdim=True)
    threshold = float(sharpened[0].max()) - 1e-4
    assert Confidence(threshold, temperature=0.4)(Prediction(probs), {}, 0)[0].tolist() == [True, False]
    assert not Confidence(threshold)(Prediction(probs), {}, 0)[0].any()


def stream(batches, size=20, classes=3):
    draws = np.random.default_rng(0)
    for _ in range(batches):
        probs = torch.from_numpy(draws.dirichlet(np.ones(classes), size)).float()
        yield Prediction(probs, torch.from_numpy(draws.random((size, classes)) ** 3).float())


@pytest.mark.parametrize("statistic", ["variance", "std"])
@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("lagged", [True, False])
def test_uncertainty_equals_a_plain_loop(statistic, inclusive, lagged):
    rule = Uncertainty(0.6, start=0.2, warmup=10, window=7, statistic=statistic, inclusive=inclusive, lagged=lagged)
    state, queue = rule.init(POOL), deque(maxlen=7)
    for step, prediction in enumerate(stream(30)):
        mask, state = rule(prediction, state, step)
        level = 0.2 + 0.4 * min(step, 10) / 10
        chosen = prediction.probs.argmax(1)
        values = [float(prediction.std[n, c]) ** (2 if statistic == "variance" else 1) for n, c in enumerate(chosen)]
        before = np.mean(queue) if queue else 0.02
        queue.append(np.quantile(values, level))
        threshold = before if lagged else np.mean(queue)
        # Rounding decides about a sample on the threshold; interpolated quantiles make that rare.
        near = np.abs(np.array(values) - threshold) < 1e-6
        expected = np.array(values) <= threshold if inclusive else np.array(values) < threshold
        assert (mask.numpy() == expected)[~near].all()
        assert near.sum() <= 1


@pytest.mark.slow
def test_uncertainty_accepts_ties_despite_rounding():
    rule = Uncertainty(0.9, start=0.9, warmup=0)
    for value in np.random.default_rng(0).random(200).astype(np.float32):
        state = rule.init(POOL)
        for step in range(60):
            tied = Prediction(torch.tensor([[0.7, 0.3]]).repeat(8, 1), torch.full((8, 2), float(value)))
            mask, state = rule(tied, state, step)
            assert mask.all()


def test_uncertainty_accepts_the_quantile():
    """Over 500 batches of 200, once the queue is full: within 4 standard errors of the share, each below 0.0015."""
    rule = Uncertainty(0.75, warmup=0)
    state, shares = rule.init(POOL), []
    for step, prediction in enumerate(stream(550, size=200)):
        mask, state = rule(prediction, state, step)
        shares.append(mask.float().mean().item())
    assert abs(np.mean(shares[50:]) - 0.75) < 0.006


def test_uncertainty_ties_at_zero_need_inclusive():
    probs = torch.tensor([[1.0, 0.0]] * 9 + [[0.6, 0.4]])
    std = torch.zeros(10, 2)
    std[-1] = 0.2
    for inclusive, accepted in ((True, 9), (False, 0)):
        rule = Uncertainty(0.5, start=0.5, inclusive=inclusive)
        mask, _ = rule(Prediction(probs, std), rule.init(POOL), 0)
        assert mask.sum() == accepted


def test_uncertainty_rejects_a_linear_head():
    rule = Uncertainty(0.9)
    with pytest.raises(UserError, match="needs a Bayesian head"):
        rule(Prediction(torch.ones(2, 2) / 2), rule.init(POOL), 0)
