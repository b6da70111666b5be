"""Statistics over seeds: means with standard errors, paired differences, correlations."""

import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import optional_import

LEVEL = 0.95
MIN_POINTS = 5  # for a correlation: with fewer, a bootstrap interval says nothing


def mean(values: Sequence[float | None], form: str) -> str:
    """'71.2% ± 0.4%' with the standard error, '71.2%' of one value, '–' of none."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    shown = form.format(statistics.mean(known))
    if len(known) == 1:
        return shown
    return f"{shown} ± {form.replace('+', '').format(statistics.stdev(known) / math.sqrt(len(known)))}"


def difference(values: Sequence[float], form: str, better: int) -> str:
    """'+1.2 [-0.3, +2.7] 4/5': mean, confidence interval, how many are better; '–' of none.

    Two values are shown themselves instead of an interval: '+1.2 (-0.3; +2.7)'. `better` is the sign
    of an improvement.
    """
    if not values:
        return "–"
    improved = f"{sum(value * better > 0 for value in values)}/{len(values)}"
    if len(values) == 1:
        return f"{form.format(values[0])} {improved}"
    if len(values) == 2:
        return f"{form.format(statistics.mean(values))} ({'; '.join(map(form.format, values))}) {improved}"
    low, high = map(form.format, interval(values))
    return f"{form.format(statistics.mean(values))} [{low}, {high}] {improved}"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The confidence interval of the mean of normal values, by Student's t."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(_stats().t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return statistics.mean(values) - half, statistics.mean(values) + half


def _stats() -> Any:
    with optional_import("study", "a study"):
        from scipy import stats
    return stats


@dataclass(frozen=True)
class Correlation:
    """A coefficient with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def pearson(x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1) -> Any:
    """Pearson's coefficient along an axis; nan if x or y is constant. x, y [..., n] -> [...]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _stats().DegenerateDataWarning)
        return _stats().pearsonr(x, y, axis=axis).statistic


def spearman(x: NDArray[np.float64], y: NDArray[np.float64], axis: int = -1) -> Any:
    """Spearman's coefficient along an axis, which scipy's `spearmanr` does not vectorise."""
    ranks = _stats().rankdata
    return pearson(ranks(x, axis=axis), ranks(y, axis=axis), axis)


Coefficient = Callable[..., Any]


def without_one(coefficient: Coefficient, points: Sequence[tuple[float, float]]) -> str:
    """The range of the coefficient if any one point is left out, as text."""
    x, y = np.array(points, dtype=np.float64).T
    kept = ~np.eye(len(points), dtype=np.bool_)
    found = [coefficient(x[row], y[row]) for row in kept]
    return f"{np.nanmin(found):+.2f} to {np.nanmax(found):+.2f}"


def correlation(
    coefficient: Coefficient,
    points: Sequence[tuple[float, float]],
    draws: int = 10_000,
) -> Correlation | None:
    """A coefficient with its paired percentile bootstrap interval.

    None with fewer than `MIN_POINTS` points. Resamples with constant x or y are left out.
    """
    if len(points) < MIN_POINTS:
        return None
    x, y = np.array(points, dtype=np.float64).T
    value = float(coefficient(x, y))
    if math.isnan(value):
        return None
    stats = _stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap((x, y), coefficient, paired=True, vectorized=True, n_resamples=draws,
                                method="percentile", rng=0)  # fmt: skip
    # scipy's own interval is nan if any resample has no coefficient.
    found = drawn.bootstrap_distribution
    low, high = np.nanquantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Correlation(value, float(low), float(high))
