"""The heads that average several linear layers, against plain loops."""

import copy

import numpy as np
import pytest
import torch

from surelabel.models import layers_head
from surelabel.models.dropout_head import DropoutHead
from surelabel.models.ensemble_head import EnsembleHead
from surelabel.utils.rng import generator

FEATURES = torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def made(kind):
    torch.manual_seed(0)
    head = {
        "dropout": lambda: DropoutHead(6, 3, 0.4, samples=9),
        "ensemble": lambda: EnsembleHead(6, 3, members=4),
    }[kind]()
    return head.double().eval()


@pytest.fixture(params=["dropout", "ensemble"])
def head(request):
    return made(request.param)


def test_predict_equals_a_plain_loop(head):
    weights, biases = head.layers(generator(0, "x"))
    assert len(weights) == len(biases) == (4 if isinstance(head, EnsembleHead) else 9)
    each = torch.stack([torch.softmax(FEATURES @ w.T + b, 1) for w, b in zip(weights, biases, strict=True)])
    prediction = head.predict(FEATURES, generator(0, "x"))
    np.testing.assert_allclose(prediction.probs, each.mean(0).detach(), atol=1e-12)
    np.testing.assert_allclose(prediction.std, np.std(each.detach().numpy(), axis=0), atol=1e-12)
    assert (prediction.std > 1e-3).any()
    assert not prediction.probs.requires_grad
    assert head.kl() is None


def test_prediction_is_that_of_the_sample_alone(head, monkeypatch):
    rng = generator(0, "x")
    whole = head.predict(FEATURES, rng)
    parts = [head.predict(rows, rng) for rows in FEATURES.split(2)]  # rng has moved on
    monkeypatch.setattr(layers_head, "CHUNK", 1)
    by_row = head.predict(FEATURES, rng)
    for name in ("probs", "std"):
        torch.testing.assert_close(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
        torch.testing.assert_close(getattr(by_row, name), getattr(whole, name))


def test_saved_head_predicts_the_same(head):
    other = copy.deepcopy(head)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(head.state_dict())
    rng = generator(0, "x")
    assert torch.equal(other.predict(FEATURES, rng).probs, head.predict(FEATURES, rng).probs)


def test_dropout_leaves_columns_out_and_keeps_the_mean():
    head = made("dropout")
    weights, _ = head.layers(generator(0, "x"))
    ratio = (weights / head.weight).detach()
    whole_columns = ratio[:, :1].expand_as(ratio)
    torch.testing.assert_close(ratio, whole_columns)
    values = ratio[:, 0]
    assert values.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
    head.samples = 20_000
    share = (head.layers(generator(0, "x"))[0][:, 0] == 0).double().mean().item()
    assert share == pytest.approx(0.4, abs=0.01)


def test_dropout_draws_anew_in_training():
    head = made("dropout").train()
    rng = generator(0, "x")
    first, second = (head.predict(FEATURES, rng).probs for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first, head.predict(FEATURES, generator(0, "x")).probs)


def test_ensemble_members_begin_apart():
    head = made("ensemble")
    assert len(head.weight.flatten(1).unique(dim=0)) == 4
    logits = head(FEATURES)
    assert logits.shape == (7, 4, 3)
    torch.testing.assert_close(logits[:, 2], FEATURES @ head.weight[2].T + head.bias.view(4, 3)[2])
