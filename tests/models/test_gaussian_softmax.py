import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from torch.quasirandom import SobolEngine

from surelabel.models.gaussian_softmax import SPREAD, by_draws, closed_form, fixed_draws, softmax_moments


def logits(samples, classes, std, seed=0, means=2.0):
    random = torch.Generator().manual_seed(seed)
    shape = samples, classes
    return torch.randn(shape, generator=random) * means, torch.rand(shape, generator=random) * std


@pytest.mark.parametrize("std", [0.1, 0.5, 1.0, 3.0])
def test_two_classes_equal_numerical_integration(std):
    """The difference of two logits is a Gaussian, so that only the quadrature can err; wide ones are drawn."""
    mean, scale = torch.tensor([[0.7, -0.4]]).double(), torch.tensor([[std, std / 2]]).double()
    probs, spread = softmax_moments(mean, scale, 1000)
    gap = norm(1.1, np.hypot(std, std / 2))
    first, second = (quad(lambda x, n=n: expit(x) ** n * gap.pdf(x), -30, 30, points=[1.1])[0] for n in (1, 2))
    within = 3e-4 if std <= SPREAD else 0.01
    assert probs[0].tolist() == pytest.approx([first, 1 - first], abs=within)
    assert spread[0].tolist() == pytest.approx([np.sqrt(second - first**2)] * 2, abs=within)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("std", [0.3, 1.0, 3.0])
def test_error_is_at_most_that_of_fifty_draws(classes, std):
    """Against 20,000 draws, whose own error is a twentieth of that of 50."""
    mean, scale = logits(20, classes, std)
    random = np.random.default_rng(0)

    def drawn(draws):
        noise = random.standard_normal((20, draws, classes), dtype=np.float32)
        return by_draws(mean, scale, torch.from_numpy(noise))

    truth, ours, theirs = drawn(20_000), softmax_moments(mean, scale, 50), [drawn(50) for _ in range(10)]
    for place in (0, 1):
        error = (ours[place] - truth[place]).square().mean()
        assert error < torch.stack([(one[place] - truth[place]).square().mean() for one in theirs]).mean()


@given(st.integers(0, 1000), st.integers(2, 30), st.floats(0, 4), st.floats(0, 60))
def test_moments_are_those_of_probabilities(seed, classes, std, means):
    mean, scale = logits(8, classes, std, seed, means)
    probs, spread = softmax_moments(mean, scale, 16)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(8))
    assert (probs >= 0).all()
    assert (spread >= 0).all()
    # The mean of the squares of numbers in [0, 1] is at most that of the numbers.
    assert (spread.square() <= probs * (1 - probs) + 1e-3).all()


@given(st.integers(0, 1000), st.floats(0, 3))
def test_a_row_depends_on_itself_alone_and_classes_on_no_order(seed, std):
    mean, scale = logits(6, 5, std, seed)
    whole = softmax_moments(mean, scale, 16)
    for row in range(6):
        alone = softmax_moments(mean[row : row + 1], scale[row : row + 1], 16)
        torch.testing.assert_close([part[row : row + 1] for part in whole], list(alone), rtol=1e-5, atol=1e-6)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(seed))
    for one, other in zip(closed_form(mean[:, order], scale[:, order]), closed_form(mean, scale), strict=True):
        torch.testing.assert_close(one, other[:, order], rtol=1e-4, atol=1e-5)


def test_without_uncertainty_it_is_the_softmax():
    mean, _ = logits(6, 5, 1.0)
    probs, spread = softmax_moments(mean, torch.zeros_like(mean), 50)
    torch.testing.assert_close(probs, mean.softmax(dim=1), rtol=1e-4, atol=1e-6)
    assert spread.max() < 1e-6


def test_a_class_far_above_the_others_is_certain():
    mean, std = torch.tensor([[500.0, 0, -500]]), torch.full((1, 3), 0.5)
    probs, spread = closed_form(mean, std)
    assert probs[0].tolist() == pytest.approx([1, 0, 0])
    assert spread.max() < 1e-6


def test_fixed_draws_are_standard_for_any_number_of_classes():
    for classes in (2, SobolEngine.MAXDIM + 5):
        draws = fixed_draws(50, classes)
        torch.testing.assert_close(draws.mean(dim=0), torch.zeros(classes), rtol=0, atol=1e-6)
        torch.testing.assert_close(draws.std(dim=0, correction=0), torch.ones(classes))
