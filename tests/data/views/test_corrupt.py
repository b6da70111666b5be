import numpy as np
import torch
from scipy import stats

from surelabel.data.views import Corrupt
from surelabel.utils.rng import uniforms

GROUPS = torch.tensor([0, 1, 1, 1, 2])


def table(rows: int, seed: int = 0) -> torch.Tensor:
    """A number, a category of three, a number."""
    random = np.random.default_rng(seed)
    category = np.eye(3)[random.choice(3, rows, p=[0.5, 0.3, 0.2])]
    return torch.from_numpy(np.column_stack([random.random(rows), category, random.random(rows)]).astype(np.float32))


def test_corrupt_equals_a_plain_loop():
    rows, donors = table(40), table(30, seed=1)
    u = uniforms(0, "test", 0, 40, 3)
    expected = rows.numpy().copy()
    for row in range(40):
        for feature, columns in enumerate(([0], [1, 2, 3], [4])):
            if u[row, feature] < 0.4:
                expected[row, columns] = donors[int(u[row, feature] / np.float32(0.4) * np.float32(30)), columns]
    view = Corrupt(0.4, donors, GROUPS)
    assert view.draws == 3
    np.testing.assert_array_equal(view(rows, torch.from_numpy(u)), expected)
    assert (expected != rows.numpy()).any(1).mean() > 0.5


def test_corrupt_with_probability_zero_and_one():
    rows, donors = table(200), table(50, seed=1) + 10
    before, u = rows.clone(), torch.from_numpy(uniforms(0, "test", 0, 200, 3))
    assert torch.equal(Corrupt(0, donors, GROUPS)(rows, u), rows)
    assert (Corrupt(1, donors, GROUPS)(rows, u) >= 10).all()
    assert torch.equal(rows, before)


def test_corrupt_keeps_categories_and_marginals():
    """Each test fails by chance once in 10,000 seeds, and the seed is fixed."""
    donors = table(5000)
    seen = Corrupt(0.5, donors, GROUPS)(donors, torch.from_numpy(uniforms(2, "test", 0, 5000, 3)))
    assert (seen[:, 1:4].sum(1) == 1).all()
    assert stats.ks_2samp(seen[:, 0], donors[:, 0]).pvalue > 1e-4
    counts = [part[:, 1:4].sum(0).numpy() for part in (seen, donors)]
    assert stats.chi2_contingency(counts).pvalue > 1e-4


def test_corrupt_replaces_the_asked_share_by_each_row_alike():
    """Each of the two fails by chance once in 10,000 seeds, and the seed is fixed."""
    rows, donors = torch.full((20_000, 1), -1.0), torch.arange(10.0)[:, None]
    seen = Corrupt(0.2, donors, torch.tensor([0]))(rows, torch.from_numpy(uniforms(3, "test", 0, 20_000, 1)))
    by_row = [int((seen == number).sum()) for number in range(10)]
    assert stats.binomtest(sum(by_row), 20_000, 0.2).pvalue > 1e-4
    assert stats.chisquare(by_row).pvalue > 1e-4


def test_corrupt_just_below_the_probability_takes_the_last_row():
    rows, donors = torch.zeros(1, 1), torch.arange(1.0, 4)[:, None]
    for probability in (0.1, 0.2, 0.3, 0.7):
        below = np.nextafter(np.float32(probability), np.float32(0))
        assert Corrupt(probability, donors, torch.tensor([0]))(rows, torch.tensor([[below]])).item() == 3
