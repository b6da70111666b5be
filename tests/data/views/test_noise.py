import torch
from scipy import stats

from surelabel.data.views import Noise
from surelabel.utils.rng import uniforms


def draws(seed: int, rows: int) -> torch.Tensor:
    return torch.from_numpy(uniforms(seed, "test", 0, rows, Noise.draws))


def test_noise_of_a_row_is_a_function_of_its_draw():
    rows, u = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), draws(0, 50)
    view = Noise(0.5, torch.tensor([1.0, 0.0, 2.0]))
    seen = view(rows, u)
    assert torch.equal(seen[10:20], view(rows[10:20], u[10:20]))
    assert torch.equal(seen[:, 1], rows[:, 1])
    added = (view(torch.zeros(50, 3), u) / torch.tensor([1.0, 1.0, 2.0]))[:, [0, 2]]
    assert torch.allclose(seen[:, [0, 2]], rows[:, [0, 2]] + added * torch.tensor([1.0, 2.0]), atol=1e-6)


def test_noise_is_normal_in_each_column():
    """Kolmogorov's tests: each fails by chance once in 10,000 seeds, and the seed is fixed."""
    noise = Noise(2.0, torch.tensor([1.0, 3.0]))(torch.zeros(10_000, 2), draws(1, 10_000))
    for column, std in enumerate((2, 6)):
        assert stats.kstest(noise.numpy()[:, column], stats.norm(scale=std).cdf).pvalue > 1e-4
