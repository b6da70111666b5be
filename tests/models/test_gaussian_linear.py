"""A Gaussian layer against torch.distributions and against its own draws; BayesianHead's tests cover the rest."""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import chi2
from torch.distributions import Normal, kl_divergence

from surelabel.models.gaussian_linear import GaussianLinear


def layer():
    torch.manual_seed(0)
    return GaussianLinear(6, 4, prior_std=0.7)


def test_kl_is_that_of_torch_distributions():
    made = layer()
    for mean, rho, mine in zip(
        (made.weight_mean, made.bias_mean), (made.weight_rho, made.bias_rho), made.kl(), strict=True
    ):
        expected = kl_divergence(Normal(mean, F.softplus(rho)), Normal(torch.zeros_like(mean), 0.7))
        torch.testing.assert_close(mine, expected)


@torch.no_grad()
def test_outputs_of_drawn_weights_have_the_stated_moments():
    """20,000 draws; both bounds together fail by chance about once in a million."""
    made, draws, count = layer(), np.random.default_rng(1), 20_000
    features = torch.randn(3, 6)
    outputs = torch.stack([made(features, made.noise(draws)) for _ in range(count)]).double()
    mean, deviation = made.moments(features)
    torch.testing.assert_close(mean, made.mean(features))
    assert ((outputs.mean(0) - mean).abs() < 6 * deviation / count**0.5).all()
    low, high = chi2.ppf([2e-8, 1 - 2e-8], count - 1) / (count - 1)
    ratio = outputs.var(0) / deviation.double().square()
    assert ((ratio > low) & (ratio < high)).all()


@torch.no_grad()
def test_without_noise_a_draw_is_the_mean():
    made = layer()
    features = torch.randn(3, 6)
    torch.testing.assert_close(made(features, torch.zeros(4, 7)), made.mean(features))


def test_initial_values_are_the_released_codes():
    """Means N(0, 0.1²), ρ N(-3, 0.1²); each mean and deviation within five standard errors (one failure in 10⁵)."""
    torch.manual_seed(0)
    made = GaussianLinear(200, 200, prior_std=1.0)
    for values, mean in ((made.weight_mean, 0.0), (made.weight_rho, -3.0)):
        assert abs(values.mean().item() - mean) < 5 * 0.1 / 200
        assert abs(values.std().item() - 0.1) < 5 * 0.1 / (200 * 2**0.5)
    assert made.bias_rho.mean().item() < -2.9
