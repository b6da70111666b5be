"""The tests of BayesianHead cover its KL."""

import numpy as np
import torch
from scipy.stats import chi2

from surelabel.models.gaussian_linear import GaussianLinear


def layer():
    torch.manual_seed(0)
    return GaussianLinear(6, 4, prior_std=0.7)


@torch.no_grad()
def test_gaussian_linear_draws_have_its_moments():
    """20,000 draws; both bounds together fail by chance about once in a million."""
    made, rng, count = layer(), np.random.default_rng(1), 20_000
    features = torch.randn(3, 6)
    outputs = torch.stack([made(features, made.noise(rng)) for _ in range(count)]).double()
    mean, std = made.moments(features)
    torch.testing.assert_close(mean, made.mean(features))
    assert ((outputs.mean(0) - mean).abs() < 6 * std / count**0.5).all()
    low, high = chi2.ppf([2e-8, 1 - 2e-8], count - 1) / (count - 1)
    ratio = outputs.var(0) / std.double().square()
    assert ((ratio > low) & (ratio < high)).all()


@torch.no_grad()
def test_gaussian_linear_without_noise_is_the_mean():
    made = layer()
    features = torch.randn(3, 6)
    torch.testing.assert_close(made(features, torch.zeros(4, 7)), made.mean(features))


def test_gaussian_linear_starts_as_the_released_code():
    """Means N(0, 0.1²), ρ N(-3, 0.1²); each mean and std within five standard errors (one failure in 10⁵)."""
    torch.manual_seed(0)
    made = GaussianLinear(200, 200, prior_std=1.0)
    for values, mean in ((made.weight_mean, 0.0), (made.weight_rho, -3.0)):
        assert abs(values.mean().item() - mean) < 5 * 0.1 / 200
        assert abs(values.std().item() - 0.1) < 5 * 0.1 / (200 * 2**0.5)
    assert made.bias_rho.mean().item() < -2.9
