from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.training.summary import summary
from surelabel.utils.errors import UserError


def run(accuracies, eces=None):
    eces = eces or [0.5 - 0.01 * i for i in range(len(accuracies))]
    return [
        {"step": 100 * (i + 1), "accuracy": a, "ece": e, "nll": 1.0}
        for i, (a, e) in enumerate(zip(accuracies, eces, strict=True))
    ]


def rising_to(best, n):
    """n accuracies that rise by 0.01 to evaluation number `best` and fall by 0.001 after it."""
    return [0.01 * i if i <= best else 0.01 * best - 0.001 * (i - best) for i in range(n)]


def test_summary_of_one_evaluation():
    only = summary(run([0.7], [0.1]))
    assert (only.evaluations, only.window) == (1, 1)
    assert (
        only.last_accuracy == only.last_median_accuracy == only.best_accuracy == only.around_best_median_accuracy == 0.7
    )
    assert only.last_ece == only.converged_ece == only.around_best_median_ece == only.mean_ece_until_converged == 0.1
    assert only.last_step == only.best_step == only.converged_step == 100


@pytest.mark.parametrize(("n", "window"), [(19, 19), (20, 20), (21, 20), (60, 20)])
def test_summary_last_median_is_of_twenty(n, window):
    accuracies = rising_to(n // 2, n)
    result = summary(run(accuracies))
    assert (result.evaluations, result.window) == (n, window)
    assert result.last_median_accuracy == median(accuracies[-window:])
    assert (result.last_step, result.last_accuracy) == (100 * n, accuracies[-1])


@pytest.mark.parametrize(
    ("best", "first", "end"),
    [(30, 20, 40), (10, 0, 20), (3, 0, 20), (0, 0, 20), (50, 40, 60), (51, 40, 60), (59, 40, 60)],
)
def test_summary_window_around_the_best(best, first, end):
    accuracies = rising_to(best, 60)
    eces = [(7 * i % 60) / 60 for i in range(60)]
    result = summary(run(accuracies, eces))
    assert result.best_step == 100 * (best + 1)
    assert result.around_best_median_accuracy == median(accuracies[first:end])
    assert result.around_best_median_ece == median(eces[first:end])


def test_summary_converged_reaches_the_median_first():
    accuracies = [0.1, 0.2, 0.62, 0.3] + [0.5, 0.7] * 18
    eces = [0.4, 0.3, 0.2, 0.1] + [0.15] * 36
    result = summary(run(accuracies, eces))
    assert result.around_best_median_accuracy == 0.5
    assert (result.converged_step, result.converged_ece) == (300, 0.2)
    assert result.mean_ece_until_converged == pytest.approx(0.3)


def test_summary_best_is_the_first_of_equals():
    assert summary(run([0.1, 0.8, 0.3, 0.8])).best_step == 200


@given(st.lists(st.floats(0, 1), min_size=1, max_size=70))
def test_summary_converges_by_the_best(accuracies):
    result = summary(run(accuracies))
    assert result.converged_step <= result.best_step <= result.last_step
    assert min(accuracies) <= result.around_best_median_accuracy <= result.best_accuracy == max(accuracies)
    assert result.last_median_accuracy <= result.best_accuracy


@pytest.mark.parametrize(
    ("order", "message"), [([], "no evaluation yet"), ([0, 1, 1], "some are repeated"), ([1, 0], "not in order")]
)
def test_summary_rejects_missing_or_disordered_evaluations(order, message):
    rows = run([0.1, 0.2])
    with pytest.raises(UserError, match=message):
        summary([rows[i] for i in order])
