import copy

import pytest
import torch

from surelabel.models.heads import LinearHead
from surelabel.models.laplace_head import LaplaceHead
from surelabel.utils.rng import generator

RNG = generator(0, "not used")
FEATURES = torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def head():
    torch.manual_seed(0)
    made = LaplaceHead(6, 3, precision=2.0).double().eval()
    made.fit(FEATURES[:5])
    return made


def test_laplace_head_lowers_confidence_most_where_no_label_is(head):
    far = torch.cat([FEATURES[:1], 30 * FEATURES[:1]])
    point, fitted = LinearHead.predict(head, far, RNG).probs, head.predict(far, RNG).probs
    loss = (point.amax(1) - fitted.amax(1)).tolist()
    assert 0 < loss[0] < loss[1]


def test_laplace_head_predicts_by_its_weights_in_training_and_before_it_is_fitted(head):
    point = LinearHead.predict(head, FEATURES, RNG).probs
    assert not torch.allclose(head.predict(FEATURES, RNG).probs, point)
    assert torch.equal(head.train().predict(FEATURES, RNG).probs, point)
    fresh = LaplaceHead(6, 3, None).double().eval()
    assert torch.equal(fresh.predict(FEATURES, RNG).probs, LinearHead.predict(fresh, FEATURES, RNG).probs)


def test_saved_laplace_head_predicts_the_same(head):
    other = LaplaceHead(6, 3, precision=2.0).double().eval()
    other.load_state_dict(copy.deepcopy(head.state_dict()))
    assert torch.equal(other.predict(FEATURES, RNG).probs, head.predict(FEATURES, RNG).probs)
    assert other.float().covariances.dtype == torch.float32


def test_laplace_head_without_a_precision_chooses_one(head):
    head.precision = None
    before = head.covariances
    head.fit(FEATURES[:5])
    assert not torch.allclose(head.covariances, before)
