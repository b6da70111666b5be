"""One accuracy and one ECE for a whole run, in three ways of choosing among its evaluations.

The choice changes the numbers by more than many methods differ, so a summary has all three:

- the last evaluation;
- the median accuracy of the last 20 evaluations (FixMatch's protocol);
- the paper's: the median accuracy of the 20 evaluations around the best one. This selects on the test set.

The window around the best evaluation has the ten before it, itself and the nine after it; near the ends of the run it
is shifted inwards, so that it still has 20. Of equally good evaluations, the first is the best.

The paper reports the ECE "when the model reaches this convergence criteria", the criterion being that median. Read
literally, the run has converged at its first evaluation that is at least as accurate as the median, which is never
later than the best one. The median ECE of the window, another reading, is given too.
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
    """Accuracies and ECEs of a run. `window` is the number of evaluations in each median: 20, or all if fewer.

    `last_effective_classes`: of how many classes the pseudo-labels were that were accepted last; None without any.
    """

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
    last_effective_classes: float | None


def summary(history: Sequence[Mapping[str, Any]]) -> Summary:
    """Summarise evaluations in order of their steps, each with at least `step`, `accuracy` and `ece`."""
    if any(row.get(name) is None for row in history for name in ("step", "accuracy", "ece")):
        raise UserError("the run has evaluations without accuracy or ECE")
    steps = [int(row["step"]) for row in history]
    if not steps:
        raise UserError("the run has no evaluation yet: let it reach the first one")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise UserError("the run's evaluations are not in order of their steps, or some are repeated")
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
        last_effective_classes=history[-1].get("effective_classes"),
    )


def _window_around(best: int, n: int) -> slice:
    start = min(max(best - WINDOW // 2, 0), max(n - WINDOW, 0))
    return slice(start, start + WINDOW)
