import numpy as np
import pytest
from scipy import stats

from surelabel.config.recipes import recipe
from surelabel.studies.layout import lay_out
from surelabel.studies.plan import Cell, Job, Study, job_key
from surelabel.studies.trends import quarter, trend_table

RUN = recipe("fixmatch", "cifar10", 250)
EARLY, LATE = [0.10, 0.15, 0.12], [0.30, 0.30, 0.40]


def record(seed, purity=(0.9, 0.6)):
    """Eight evaluations: ECE and purity as in the second quarter until the last, whose two differ."""
    rows = [
        {"step": 10 * number, "accuracy": 0.5, "ece": EARLY[seed], "purity": purity and purity[0],
         "acceptance": purity and 0.2, "pool_confidence": 0.8}
        for number in range(1, 7)
    ]  # fmt: skip
    for step, share, right in ((70, 0.4, 1.0), (80, 0.6, 0.5)):
        late = {"ece": LATE[seed] + (step - 75) / 100, "acceptance": purity and share, "purity": purity and right}
        rows.append(rows[-1] | {"step": step} | late)
    return {"seed": seed, "history": rows, "split": "s", "final": {"accuracy": 0.5, "ece": 0.1, "nll": 1.0}}


def layout_of(**more):
    cells = [Cell("FM", "C10", (("", Job(RUN)),), 3)]
    study = Study("made-up", "what", "Figure 0", lambda scale: cells)
    known = {job_key(Job(RUN).seeded(seed)): record(seed, **more) for seed in range(3)}
    return study, lay_out(study, cells, known)


def test_quarter_averages_and_weights_purity_by_acceptance():
    late = quarter(record(0), 4)
    assert late == {
        "ece": pytest.approx(0.30), "acceptance": pytest.approx(0.5), "purity": pytest.approx((0.4 + 0.3) / (0.4 + 0.6))
    }  # fmt: skip
    assert quarter(record(0), 2)["ece"] == pytest.approx(EARLY[0])


def test_trend_table_change_equals_scipys_paired_test():
    (row,) = trend_table(*layout_of()).rows
    change = np.subtract(LATE, EARLY)
    low, high = stats.ttest_rel(LATE, EARLY).confidence_interval(0.95)
    assert row[:5] == [
        "C10", "FM", "3", f"{np.mean(EARLY):.2f} → " * 3 + f"{np.mean(LATE):.2f}",
        f"{change.mean():+.3f} [{low:+.3f}, {high:+.3f}] 0/3",
    ]  # fmt: skip
    assert row[5:] == ["90% → 90% → 90% → 70%", "-20.0 [-20.0, -20.0] 0/3", "20% → 20% → 20% → 50%"]


def test_trend_table_needs_pseudo_labels():
    assert trend_table(*layout_of(purity=None)) is None
