import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.data.arrays.source import ArraySource
from surelabel.inference.bound import _expectations, bound, bound_terms
from surelabel.training import build, build_data
from surelabel.utils.errors import UserError


def test_bound_terms_match_a_plain_loop():
    torch.manual_seed(0)
    log_l, log_u = torch.randn(4, 3).log_softmax(-1), torch.randn(9, 3).log_softmax(-1)
    labels, hidden, pseudo = torch.tensor([0, 1, 2, 0]), torch.arange(9) % 3, torch.arange(9) // 3
    theorem, printed, elbo, divergence = bound_terms(log_l, labels, log_u, hidden, pseudo, 5.0, 0.1, 0.4)
    pseudo_nll = sum(-float(log_u[u, pseudo[u]]) for u in range(9)) / 9
    labelled_nll = sum(-float(log_l[n, labels[n]]) for n in range(4)) / 4
    assert theorem == pytest.approx(pseudo_nll + labelled_nll + (5 + math.log(10)) / 13 + 0.2)
    true = sum(float(log_l[n, labels[n]]) for n in range(4)) + sum(float(log_u[u, hidden[u]]) for u in range(9))
    assert elbo == pytest.approx(-(true - 5) / 13)
    ratio = sum(float(log_u[u, pseudo[u]] - log_u[u, hidden[u]]) for u in range(9)) / 9
    assert divergence == pytest.approx(-ratio)
    assert printed == pytest.approx(elbo - ratio + math.log(10) / 13 + 0.2)


def test_bound_terms_printed_is_below_the_theorem_for_right_pseudo_labels():
    """The step that does not hold: a sum of two means is not the mean over all samples."""
    log_l, log_u = torch.full((2, 2), math.log(0.5)), torch.full((8, 2), math.log(0.5))
    labels, hidden = torch.zeros(2, dtype=torch.long), torch.zeros(8, dtype=torch.long)
    theorem, printed, _, divergence = bound_terms(log_l, labels, log_u, hidden, hidden, 1.0, 0.05, 1.0)
    assert divergence == 0
    assert printed == pytest.approx(theorem - math.log(2))


def test_bound_terms_printed_falls_for_likely_wrong_pseudo_labels():
    log_u = torch.tensor([[0.9, 0.1]]).log()
    zero, one = torch.tensor([0]), torch.tensor([1])
    right, wrong = (bound_terms(log_u, zero, log_u, one, pseudo, 0.0, 0.5, 0.0)[1] for pseudo in (one, zero))
    assert wrong < right


@pytest.fixture
def bayesian(tiny, digits_data):
    """A network with a Bayesian head, and labelled samples."""
    config = build.resolve(replace(tiny, method="bam-uda"))
    return build.build_network(config, build_data.task_of(digits_data)), build_data.build_split(config, digits_data)


def test_bound_of_a_network_matches_a_plain_loop(bayesian, digits_data):
    network, labelled = bayesian
    found = bound(network, digits_data.train, labelled, digits_data.test, variance=1.0)
    assert found.test_nll_of_mean <= found.test_nll
    assert found.printed == pytest.approx(
        found.negative_elbo + found.divergence + found.confidence + found.sub_gaussian
    )
    kl = sum(float(part.detach().sum()) for part in network.head.kl())
    train, rest = digits_data.train, np.setdiff1d(np.arange(len(digits_data.train)), labelled)
    (known, _), (pool, mean) = (
        _expectations(network, train, index, name) for index, name in ((labelled, "labelled"), (rest, "unlabelled"))
    )
    pseudo = mean.argmax(-1).tolist()
    assert pseudo != train.labels[rest].tolist()
    pseudo_nll = sum(-float(pool[u, k]) for u, k in enumerate(pseudo)) / len(rest)
    true = [float(pool[u, k]) for u, k in enumerate(train.labels[rest].tolist())]
    labelled_nll = sum(-float(known[n, k]) for n, k in enumerate(train.labels[labelled].tolist())) / len(labelled)
    nll = pseudo_nll + labelled_nll
    assert found.theorem == pytest.approx(nll + (kl + math.log(20)) / len(train) + 0.5, rel=1e-5)
    assert found.divergence == pytest.approx(pseudo_nll + sum(true) / len(rest), rel=1e-4)


def test_bound_refuses_what_it_does_not_hold_for(bayesian, tiny, digits_data):
    (network, labelled), (train, test) = bayesian, (digits_data.train, digits_data.test)
    point = build.build_network(build.resolve(tiny), build_data.task_of(digits_data))
    with pytest.raises(UserError, match="Bayesian head"):
        bound(point, train, labelled, test, 1.0)
    with pytest.raises(UserError, match="0 < δ < 1"):
        bound(network, train, labelled, test, 1.0, delta=2)
    everyone = np.arange(len(train))
    with pytest.raises(UserError, match="the whole pool is labelled"):
        bound(network, train, everyone, test, 1.0)
    labels = np.where(everyone == 5, -1, train.labels)
    with pytest.raises(UserError, match="true class"):
        bound(network, ArraySource(train.samples(everyone), labels, train.classes), labelled, test, 1.0)
