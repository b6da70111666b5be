"""One accuracy and one ECE for a whole run: three ways to choose among its evaluations, side by side.

Which one is reported changes the figure by more than many methods differ, so a summary carries them all:

- the last evaluation;
- the median accuracy of the last 20 evaluations (FixMatch's protocol);
- the paper's: the median accuracy of the 20 evaluations around the best one. This selects on the test set.

The window around the best evaluation holds the ten before it, itself and the nine after it; near either end of the
run it is shifted inwards, so that it still holds 20. Of equally good evaluations the first is the best.

The paper reports the ECE "when the model reaches this convergence criteria", the criterion being that median. Read as
written, the run has converged at its first evaluation that is at least as accurate as the median, which is never later
than the best one. The median ECE of the window, another reading, stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from surelabel.utils.errors import UserError

WINDOW = 20


@dataclass(frozen=True)
class Summary:
    """Accuracies and ECEs of a run. `window` is how many evaluations each median was taken over: below 20, say so."""

    evaluations: int
    window: int
    last_step: int
    last_accuracy: float
    last_ece: float
    last_median_accuracy: float
    best_step: int
    best_accuracy: float
    around_best_median_accuracy: float
    around_best_median_ece: float
    converged_step: int
    converged_ece: float
    mean_ece_until_converged: float


def summary(history: Sequence[Mapping[str, Any]]) -> Summary:
    """Summarises evaluations in the order they were made, each with at least `step`, `accuracy` and `ece`."""
    steps = [int(row["step"]) for row in history]
    if not steps:
        raise UserError("the run has no evaluation to summarise yet: let it reach its first one")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise UserError("the run's evaluations are not in the order of their steps, or some are there twice")
    accuracy = [float(row["accuracy"]) for row in history]
    ece = [float(row["ece"]) for row in history]
    best = accuracy.index(max(accuracy))
    around = _window_around(best, len(steps))
    criterion = median(accuracy[around])
    converged = next(i for i, value in enumerate(accuracy) if value >= criterion)
    return Summary(
        evaluations=len(steps),
        window=min(WINDOW, len(steps)),
        last_step=steps[-1],
        last_accuracy=accuracy[-1],
        last_ece=ece[-1],
        last_median_accuracy=median(accuracy[-WINDOW:]),
        best_step=steps[best],
        best_accuracy=accuracy[best],
        around_best_median_accuracy=criterion,
        around_best_median_ece=median(ece[around]),
        converged_step=steps[converged],
        converged_ece=ece[converged],
        mean_ece_until_converged=fmean(ece[: converged + 1]),
    )


def _window_around(best: int, n: int) -> slice:
    start = min(max(best - WINDOW // 2, 0), max(n - WINDOW, 0))
    return slice(start, start + WINDOW)
