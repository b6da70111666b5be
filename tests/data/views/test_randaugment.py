import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chi2_contingency, chisquare

from surelabel.data.views import RandAugment, randaugment
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, rand_augment, to_pillow

# Each statistical test is wrong for one seed in a thousand; the seeds are fixed.
ERROR_RATE = 1e-3
ROWS = 20000


@pytest.mark.parametrize(("ops", "probability"), [(2, 0.5), (1, 1.0), (4, 0.9)])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40)])
def test_randaugment_equals_pillow(shape, ops, probability):
    view = RandAugment(ops, probability)
    images, u = crops(300, *shape), uniforms(0, "test", ops, 300, view.draws)
    views = view(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    pairs = zip(images, u.tolist(), strict=True)
    expected = np.stack([from_pillow(rand_augment(to_pillow(image), own, probability)) for image, own in pairs])
    np.testing.assert_array_equal(views, expected)


@pytest.fixture
def drawn(monkeypatch):
    """(operation, level, negative) of 20,000 images, for each of two rounds."""
    rounds = []

    def record(images, *drawn):
        rounds.append([values.numpy() for values in drawn])
        return images

    monkeypatch.setattr(randaugment, "_apply", record)
    view = RandAugment()
    view(torch.zeros(ROWS, 1, 1, 1, dtype=torch.uint8), torch.from_numpy(uniforms(3, "test", 0, ROWS, view.draws)))
    return rounds


def test_randaugment_operations_are_uniform(drawn):
    """13 of 14 operations do something: Identity has probability 1/2 + 1/28, each other 1/28."""
    assert len(randaugment.OPERATIONS) == 14
    expected = np.full(14, ROWS / 28)
    expected[randaugment.OPERATIONS.index("Identity")] += ROWS / 2
    for operation, _, _ in drawn:
        assert chisquare(np.bincount(operation, minlength=14), expected).pvalue > ERROR_RATE


def test_randaugment_levels_are_uniform(drawn):
    for _, level, _ in drawn:
        counts = np.bincount(level, minlength=10)
        assert len(counts) == 10
        assert counts[0] == 0
        assert chisquare(counts[1:]).pvalue > ERROR_RATE


def test_randaugment_signs_are_balanced(drawn):
    for _, _, negative in drawn:
        assert binomtest(int(negative.sum()), ROWS).pvalue > ERROR_RATE


def test_randaugment_draws_are_independent(drawn):
    (first, level, negative), (second, _, _) = drawn
    for one, other in [(first, second), (first, level), (first, negative), (level, negative)]:
        table = np.histogram2d(one, other, bins=[np.arange(one.min(), one.max() + 2), np.unique(other).size])[0]
        assert chi2_contingency(table).pvalue > ERROR_RATE


@pytest.mark.parametrize("settings", [{"ops": 0}, {"probability": 1.5}, {"probability": float("nan")}])
def test_randaugment_rejects_impossible_settings(settings):
    with pytest.raises(UserError, match="ops must be"):
        RandAugment(**settings)
