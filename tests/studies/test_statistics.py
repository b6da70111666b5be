import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surelabel.studies.statistics import correlation, difference, interval, mean, pearson, spearman, without_one

VALUES = [0.61, 0.66, 0.64, 0.71]
numbers = st.lists(st.integers(-20, 20).map(float), min_size=5, max_size=12)


def test_mean_shows_the_standard_error():
    assert mean(VALUES, "{:.3f}") == f"{np.mean(VALUES):.3f} ± {stats.sem(VALUES):.3f}"
    assert mean([0.5, None], "{:.1%}") == "50.0%"
    assert mean([None], "{:.1%}") == "–"


def test_interval_equals_scipys_t_test():
    low, high = stats.ttest_1samp(VALUES, 0).confidence_interval(0.95)
    assert interval(VALUES) == pytest.approx((low, high))


def test_difference_counts_improvements():
    assert difference([1.0, 2.0, -1.0], "{:+.1f}", 1).endswith(" 2/3")
    assert difference([1.0, 2.0, -1.0], "{:+.1f}", -1).endswith(" 1/3")
    assert difference([0.5], "{:+.1f}", 1) == "+0.5 1/1"
    assert difference([0.5, -1.5], "{:+.1f}", 1) == "-0.5 (+0.5; -1.5) 1/2"
    assert difference([], "{:+.1f}", 1) == "–"


@given(st.data(), numbers)
def test_correlations_equal_numpy_and_scipy(data, x):
    y = data.draw(st.lists(st.integers(-3, 3).map(float), min_size=len(x), max_size=len(x)))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(pearson(np.array(x), np.array(y)))
        assert correlation(pearson, list(zip(x, y, strict=True)), draws=10) is None
        return
    assert pearson(np.array(x), np.array(y)) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert spearman(np.array(x), np.array(y)) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def test_correlation_interval_equals_a_plain_bootstrap():
    random = np.random.default_rng(1)
    points = random.normal(size=(30, 2)) @ [[1.0, 0.8], [0.0, 0.4]]
    found = correlation(pearson, points.tolist())
    drawn = [np.corrcoef(random.choice(points, 30).T)[0, 1] for _ in range(2000)]
    # Both ends are quantiles of resamples: with 2000 of them their error is about 0.01.
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.05)
    assert found.low <= found.value <= found.high


def test_interval_has_its_coverage():
    """400 intervals at 95 %: fewer than 361 would cover by chance with a probability below 1e-5."""
    random = np.random.default_rng(0)
    covered = sum(low <= 0 <= high for low, high in (interval(list(random.normal(size=5))) for _ in range(400)))
    assert covered >= stats.binom.ppf(1e-5, 400, 0.95)
    assert covered <= stats.binom.ppf(1 - 1e-5, 400, 0.95)


def test_pearson_of_constant_values_is_nan():
    x, y = np.full(3, 0.1), np.array([0.7, 0.7, 0.7])
    assert (x - x.mean()).any()  # else this would test nothing
    assert np.isnan(pearson(x, y))
    assert np.isnan(pearson(np.stack([x, [1.0, 2.0, 4.0]]), np.stack([[1.0, 2.0, 3.0], y]))).all()


def test_correlation_leaves_out_constant_resamples():
    found = correlation(pearson, [(0.1, 0.4), (0.2, 0.3), (0.3, 0.35), (0.4, 0.1), (0.4, 0.2)])
    assert -1 - 1e-9 <= found.low < found.value < found.high <= 1 + 1e-9


def test_without_one_reveals_an_outlier():
    points = [*np.random.default_rng(3).normal(size=(6, 2)).tolist(), [30.0, -30.0]]
    plain = [stats.pearsonr(*np.delete(points, row, axis=0).T).statistic for row in range(7)]
    assert max(plain[:-1]) < -0.9 < plain[-1]
    assert without_one(pearson, points) == f"{min(plain):+.2f} to {plain[-1]:+.2f}"
    assert without_one(pearson, [(0, 0), (0, 0), (0, 0), (0, 0), (1, 1)]) == "+1.00 to +1.00"  # without it, none


def test_correlation_needs_five_points():
    assert correlation(pearson, [(0, 1), (1, 2), (2, 1), (3, 4)]) is None
