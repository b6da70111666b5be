import numpy as np
import pytest
import torch

from surelabel.equations import equal_width_bins
from surelabel.inference.trust import Accepted
from surelabel.report.charts import Line, compact, curves, reliability, trust_curve


@pytest.fixture
def predictions():
    random = torch.Generator().manual_seed(0)
    probs = (3 * torch.randn(500, 4, generator=random)).softmax(-1).double()
    return probs, torch.randint(0, 4, (500,), generator=random)


def test_reliability_draws_accuracy_gap_and_counts(predictions):
    probs, labels = predictions
    upper, lower = reliability(equal_width_bins(probs, labels)).axes
    confidence, predicted = probs.max(-1)
    accuracy, gaps = upper.containers
    drawn = [rectangle for rectangle in lower.containers[0] if rectangle.get_height() > 0]
    counts = [text.get_text() for text in lower.texts]
    assert len(accuracy) == len(gaps) == len(drawn) == len(counts)
    for bar, gap, share, count in zip(accuracy, gaps, drawn, counts, strict=True):
        low = round(bar.get_x() * 10 - 0.03) / 10
        inside = (confidence > low) & (confidence <= low + 0.1)
        assert bar.get_height() == pytest.approx((predicted == labels)[inside].double().mean().item())
        assert gap.get_y() + gap.get_height() == pytest.approx(confidence[inside].mean().item())
        assert share.get_height() == pytest.approx(inside.sum().item() / 500)
        assert count == str(inside.sum().item())


def test_trust_curve_marks_what_is_accepted():
    curve = [Accepted(10 * part, 0.9, 1 - part / 100, 0.9 - part / 100, part) for part in range(1, 11)]
    expected, mark, least, low = (axes := trust_curve(curve, 100, curve[4]).axes[0]).lines
    assert expected.get_ydata()[-1] == pytest.approx(0.9)
    assert least.get_ydata()[-1] == pytest.approx(0.8)
    assert [mark.get_xydata().tolist(), low.get_xydata().tolist()] == [[[50, 0.95]], [[50, 0.85]]]
    assert axes.get_ylim()[0] < 0.8
    assert len(trust_curve(curve, 100, Accepted(0, 1.0, 1.0, 0.0, 0)).axes[0].lines) == 2


def test_curves_leave_gaps_for_missing_values():
    figure = curves([Line("a", [1, 2, 3], [0.5, None, 0.7]), Line("b", [5], [0.1])], percent=True)
    first, second = figure.axes[0].lines
    np.testing.assert_array_equal(first.get_ydata(), [0.5, np.nan, 0.7])
    assert first.get_xdata().tolist() == [1, 2, 3]
    assert second.get_marker() == "o"
    assert figure.axes[0].get_ylim()[1] > 1
    assert first.get_linestyle() != second.get_linestyle()


def test_curves_show_negative_values():
    assert curves([Line("me_max", [1, 2], [-2.0, -1.0])], percent=False).axes[0].get_ylim()[0] < -2


def test_compact_has_at_most_five_characters():
    expected = {0: "0", 9_999: "9,999", 10_000: "10.0k", 99_949: "99.9k", 99_950: "100k", 999_949: "1000k"}
    assert {count: compact(count) for count in expected} == expected
    assert compact(999_950) == "1.0M"
