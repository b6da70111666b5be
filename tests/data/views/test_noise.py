import numpy as np
import torch
from scipy import stats

from surelabel.data.views import Noise
from surelabel.utils.rng import uniforms


def test_noise_equals_the_normal_quantile():
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    u = uniforms(0, "test", 0, 50, 3)
    seen = Noise(0.5, torch.tensor([1.0, 0.0, 1.0]))(rows, torch.from_numpy(u))
    expected = rows.numpy() + 0.5 * stats.norm.ppf(u.astype(np.float64) + 2**-25) * [1, 0, 1]
    np.testing.assert_allclose(seen.numpy(), expected, atol=1e-5)


def test_noise_is_finite_for_extreme_draws():
    u = torch.tensor([[0.0], [1 - 2**-24]])
    seen = Noise(1.0, torch.ones(1))(torch.zeros(2, 1), u)
    assert torch.isfinite(seen).all()
    assert 5 < seen[1] == -seen[0]


def test_noise_is_normal():
    """Kolmogorov's test: it fails by chance once in 10,000 seeds, and the seed is fixed."""
    u = torch.from_numpy(uniforms(1, "test", 0, 10_000, 1))
    noise = Noise(2.0, torch.ones(1))(torch.zeros(10_000, 1), u)
    assert stats.kstest(noise.numpy()[:, 0], stats.norm(scale=2).cdf).pvalue > 1e-4
