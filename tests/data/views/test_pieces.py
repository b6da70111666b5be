import torch
from scipy import stats

from surelabel.data.views.pieces import PLACES, normals, pieces
from surelabel.utils.rng import uniforms

CPU = torch.device("cpu")
COLUMNS, ROWS = 200, 400


def noise(step: int = 0) -> torch.Tensor:
    return pieces(normals(COLUMNS, CPU), COLUMNS, torch.from_numpy(uniforms(0, "test", step, ROWS, 1))[:, 0])


def test_pieces_begin_where_they_are_asked_to():
    numbers = torch.arange(PLACES + 2.0)
    u = torch.tensor([0.0, 1 / PLACES, 1 - 2**-24])
    assert pieces(numbers, 3, u).tolist() == [[0, 1, 2], [1, 2, 3], [PLACES - 1, PLACES, PLACES + 1]]


def test_pieces_of_normals_are_normal_in_each_row_and_column():
    """Fisher's combination of Kolmogorov's tests: each fails by chance once in 10,000 seeds, and the seed is fixed."""
    found = noise()
    for parts in (found, found.T):
        values = [stats.kstest(part.numpy(), "norm").pvalue for part in parts]
        assert stats.combine_pvalues(values).pvalue > 1e-4


def test_pieces_of_normals_are_uncorrelated():
    """Between rows, between columns, and between the steps: as many correlations as independent numbers would give.

    A squared correlation of n independent pairs is 1/n on average; the sum of so many differs by less than 5 %.
    """
    first, second = noise(), noise(1)
    for one, other in ((first, None), (first.T, None), (first, second), (first.T, second.T)):
        found = torch.corrcoef(one if other is None else torch.cat([one, other]))
        pairs = found.triu(1)[found.triu(1) != 0] if other is None else found[: len(one), len(one) :]
        assert abs(pairs.square().mean() * one.shape[1] - 1) < 0.05


def test_mean_and_std_of_a_long_run_are_those_of_normal_numbers():
    """Of 200 columns, each of 40,000 numbers: the chi-square of their means fails by chance once in 10,000 seeds."""
    found = torch.cat([noise(step) for step in range(100)]).double()
    assert stats.chi2.sf((found.mean(0).square() * len(found)).sum(), COLUMNS) > 1e-4
    assert (found.std(0) - 1).abs().max() < 5 / (2 * len(found)) ** 0.5
