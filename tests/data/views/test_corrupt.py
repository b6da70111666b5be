import numpy as np
import torch
from scipy import stats

from surelabel.data.views import Corrupt
from surelabel.data.views.corrupt import DONORS
from surelabel.utils.rng import uniforms

GROUPS = torch.tensor([0, 1, 1, 1, 2])


def table(rows: int, seed: int = 0) -> torch.Tensor:
    """A number, a category of three, a number."""
    random = np.random.default_rng(seed)
    category = np.eye(3)[random.choice(3, rows, p=[0.5, 0.3, 0.2])]
    return torch.from_numpy(np.column_stack([random.random(rows), category, random.random(rows)]).astype(np.float32))


def draws(seed: int, rows: int) -> torch.Tensor:
    return torch.from_numpy(uniforms(seed, "test", 0, rows, Corrupt.draws))


def test_corrupt_takes_each_value_as_it_is_in_the_row_or_in_the_table():
    rows, donors = table(40), table(30, seed=1)
    view, u = Corrupt(0.4, donors, GROUPS), draws(0, 40)
    seen = view(rows, u)
    kept, replaced = seen == rows, torch.zeros(40, 3, dtype=torch.bool)
    for feature, columns in enumerate(([0], [1, 2, 3], [4])):
        known = {tuple(donor) for donor in donors[:, columns].tolist()}
        replaced[:, feature] = ~kept[:, columns].all(1)
        assert all(tuple(seen[row, columns].tolist()) in known for row in replaced[:, feature].nonzero()[:, 0])
    assert replaced.any(1).float().mean() > 0.5
    assert torch.equal(seen[10:20], view(rows[10:20], u[10:20]))


def test_corrupt_with_probability_zero_and_one():
    rows, donors = table(200), table(50, seed=1) + 10
    before, u = rows.clone(), draws(0, 200)
    assert torch.equal(Corrupt(0, donors, GROUPS)(rows, u), rows)
    assert (Corrupt(1, donors, GROUPS)(rows, u) >= 10).all()
    assert torch.equal(rows, before)


def test_corrupt_keeps_categories_and_marginals():
    """Each test fails by chance once in 10,000 seeds, and the seed is fixed."""
    donors = table(DONORS)
    seen = Corrupt(0.5, donors, GROUPS)(donors, draws(2, len(donors)))
    assert (seen[:, 1:4].sum(1) == 1).all()
    assert stats.ks_2samp(seen[:, 0], donors[:, 0]).pvalue > 1e-4
    counts = [part[:, 1:4].sum(0).numpy() for part in (seen, donors)]
    assert stats.chi2_contingency(counts).pvalue > 1e-4


def test_corrupt_replaces_the_asked_share_by_each_row_alike():
    """Each of the two fails by chance once in 10,000 seeds, and the seed is fixed."""
    rows, donors = torch.full((20_000, 1), -1.0), torch.arange(10.0)[:, None]
    seen = Corrupt(0.2, donors, torch.tensor([0]))(rows, draws(3, 20_000))
    by_row = [int((seen == number).sum()) for number in range(10)]
    assert stats.binomtest(sum(by_row), 20_000, 0.2).pvalue > 1e-4
    assert stats.chisquare(by_row).pvalue > 1e-4


def test_corrupt_replaces_features_independently_by_those_of_different_rows():
    """Tests of independence fail by chance once in 10,000 seeds; the table's columns are equal, and sorted."""
    donors = torch.arange(100.0)[:, None].expand(-1, 2).contiguous() + 1
    seen = Corrupt(0.5, donors, torch.tensor([0, 1]))(torch.zeros(20_000, 2), draws(4, 20_000))
    replaced = seen > 0
    assert stats.chi2_contingency(np.histogram2d(*replaced.T.numpy(), bins=2)[0]).pvalue > 1e-4
    both = seen[replaced.all(1)]
    assert stats.spearmanr(*both.T.numpy()).pvalue > 1e-4
    assert stats.binomtest(int((both[:, 0] == both[:, 1]).sum()), len(both), 0.01).pvalue > 1e-4


def test_every_row_of_a_small_table_gives_as_often():
    donors = Corrupt(0.5, table(64), GROUPS)._donors
    assert np.unique(donors[:, 0].numpy(), return_counts=True)[1].tolist() == [DONORS // 64] * 64
