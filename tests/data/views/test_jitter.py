import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from surelabel.data.views import Jitter, jitter
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views import pillow_paws
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, to_pillow

BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
# Each statistical test is wrong for one seed in a thousand; the seeds are fixed.
ERROR_RATE = 1e-3


def assert_equals_pillow(images, u, strength):
    views = Jitter(strength)(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    pairs = zip(images, u.tolist(), strict=True)
    expected = np.stack([from_pillow(pillow_paws.jitter(to_pillow(image), own, strength)) for image, own in pairs])
    np.testing.assert_array_equal(views, expected)


@pytest.mark.parametrize("strength", [0, 0.5, 1, 2.5])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 1, 1)])
def test_jitter_equals_pillow(shape, strength):
    assert_equals_pillow(crops(240, *shape), uniforms(0, "test", 0, 240, 5), strength)


@pytest.mark.parametrize("end", [0.0, BELOW_ONE])
def test_jitter_equals_pillow_in_every_order(end):
    u = np.full((24, 5), end, dtype=np.float32)
    u[:, 4] = (np.arange(24) + 0.5) / 24
    assert_equals_pillow(crops(24, 3, 16, 16), u, 1)


def test_jitter_draws_orders_and_amounts_uniformly(monkeypatch):
    """Each recorded change marks the image with its number, so that a pixel holds the order."""
    amounts = {}

    def recorder(number):
        def record(images, amount):
            amounts.setdefault(number, []).append(amount)
            return images * 4 + number

        return record

    monkeypatch.setattr(jitter, "CHANGES", tuple(recorder(number) for number in range(4)))
    marks = Jitter(1)(torch.zeros(24000, 1, 1, 1, dtype=torch.uint8), torch.from_numpy(uniforms(1, "t", 0, 24000, 5)))
    _, counts = marks.flatten().unique(return_counts=True)
    assert len(counts) == 24
    assert chisquare(counts).pvalue > ERROR_RATE
    ranges = [(0.2, 1.6)] * 3 + [(-0.2, 0.4)]
    for number, (low, length) in enumerate(ranges):
        assert kstest(torch.cat(amounts[number]), "uniform", (low, length)).pvalue > ERROR_RATE


@pytest.mark.parametrize("strength", [-0.1, 2.6, float("nan")])
def test_jitter_rejects_impossible_settings(strength):
    with pytest.raises(UserError, match="strength must be"):
        Jitter(strength)
