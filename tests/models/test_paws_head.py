import copy

import numpy as np
import pytest
import torch
from torch import nn

from surelabel.models.heads import Bayesian
from surelabel.models.paws_head import PawsHead

DRAWS = np.random.default_rng(0)  # which a prediction by neighbours does not read


def make(bayesian=None, prediction_head=False):
    torch.manual_seed(0)
    return PawsHead(12, 8, classes=3, temperature=0.1, bayesian=bayesian, prediction_head=prediction_head)


def test_paws_head_has_three_layers_with_norm_and_relu():
    head = make().eval()
    linear = [module for module in head.modules() if isinstance(module, nn.Linear)]
    norms = [module for module in head.modules() if isinstance(module, nn.BatchNorm1d)]
    features = torch.randn(4, 12)
    expected = linear[2](norms[1](linear[1](norms[0](linear[0](features)).relu())).relu())
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(12, 8), (8, 8), (8, 8)]
    assert head(features).shape == (4, 1, 8)
    torch.testing.assert_close(head(features)[:, 0], expected)


def test_paws_head_stacks_the_prediction_head_output():
    head = make(prediction_head=True).eval()
    out = head(torch.randn(4, 12))
    assert out.shape == (4, 2, 8)
    torch.testing.assert_close(out[:, 1], head.prediction_head(out[:, 0]))
    assert head.prediction_head[1].out_features == 2


def test_paws_head_support_moves_with_the_weights():
    head = make().eval()
    head.update_support(torch.randn(6, 8), torch.arange(6) % 3)
    features = torch.randn(4, 12)
    single = head.predict(features, DRAWS).probs
    double = head.double().predict(features.double(), DRAWS).probs
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single)
    head.to("meta")  # stands for a GPU
    assert {head.support.device.type, head.support_classes.device.type} == {"meta"}
    assert head.support_classes.dtype == torch.int64


@torch.no_grad()
def test_paws_head_predicts_by_weighted_vote():
    head = make().eval()
    support, classes = torch.randn(5, 8), torch.tensor([0, 2, 2, 1, 0])
    head.update_support(support, classes)
    features = torch.randn(4, 12)
    probs = head.predict(features, DRAWS).probs
    for row, z in zip(probs, head(features)[:, 0], strict=True):
        votes = [(torch.cosine_similarity(z, s, dim=0) / 0.1).exp() for s in support]
        expected = [sum(v for v, c in zip(votes, classes, strict=True) if c == k) / sum(votes) for k in range(3)]
        torch.testing.assert_close(row, torch.stack(expected))
    assert head.predict(features, DRAWS).std is None


@torch.no_grad()
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_paws_head_ignores_scale_and_support_order(scale):
    head = make().eval()
    support, classes = torch.randn(5, 8), torch.tensor([0, 2, 2, 1, 0])
    features = torch.randn(4, 12)
    head.update_support(support, classes)
    before = head.predict(features, DRAWS).probs
    order = torch.randperm(5)
    head.update_support(scale * support[order], classes[order])
    torch.testing.assert_close(head.predict(features, DRAWS).probs, before)


@torch.no_grad()
def test_paws_head_support_is_saved_with_the_weights():
    head = make().eval()
    head.update_support(torch.randn(5, 8), torch.tensor([0, 2, 2, 1, 0]))
    other = make().eval()
    other.load_state_dict(copy.deepcopy(head.state_dict()))
    features = torch.randn(4, 12)
    assert torch.equal(head.predict(features, DRAWS).probs, other.predict(features, DRAWS).probs)


@torch.no_grad()
def test_paws_head_noise_shrinks_with_samples():
    head = make(Bayesian(samples=25)).eval()
    features = torch.randn(4, 12)
    mean = head.last.mean(head.hidden(features))
    torch.testing.assert_close(head(features)[:, 0], mean)
    one = make(Bayesian(samples=1)).noise(np.random.default_rng(3))
    torch.testing.assert_close(head.noise(np.random.default_rng(3)), one / 5)
    assert not torch.equal(head(features, head.noise(np.random.default_rng(3)))[:, 0], mean)


def test_paws_head_has_a_kl_only_if_bayesian():
    assert make().kl() is None
    assert make().noise(DRAWS) is None
    assert len(make(Bayesian()).kl()) == 2
