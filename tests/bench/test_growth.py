from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import growth
from bench.growth import Curve, curves, exponents, rows
from bench.timing import Timings

# The smallest that has all that the real one has.
SMALL = {
    "samples in the pool": (200, 400),
    "classes": (2, 4),
    "labels": (20, 40),
    "pixels of an image": (64, 256),
    "M, samples of the head": (2, 4),
}


def power_law(exponents, sizes=(10, 100, 1000)):
    return Timings({str(size): [size**exponent for exponent in exponents] for size in sizes})


def test_exponent_of_each_round_is_that_of_its_power_law():
    wanted = [0.0, 1.0, 2.0, 0.5, 1.5, -1.0, 1.0]
    assert exponents(power_law(wanted), (10, 100, 1000)) == pytest.approx(wanted, abs=1e-9)


def test_rows_show_times_ratio_and_both_exponents():
    curve = Curve("rooms", "work", (10, 100, 1000), lambda size: lambda: None)
    linear_then_free = Timings({"10": [1.0] * 7, "100": [10.0] * 7, "1000": [10.0] * 7})
    *times, ratio, over_all, last = rows(curve, linear_then_free)
    assert [row.figure for row in times] == [1000, 10_000, 10_000]
    assert (ratio.what, ratio.figure) == ("work, rooms: 1,000 / 10", 10)
    assert over_all.figure == pytest.approx(0.5)
    assert last.figure == pytest.approx(0, abs=1e-9)
    assert last.target == "at most 1"


@pytest.mark.slow
@pytest.mark.parametrize("curve", curves(), ids=lambda curve: f"{curve.name}, {curve.panel}")
def test_each_curve_can_be_timed_at_two_sizes(curve, monkeypatch):
    monkeypatch.setattr(growth, "ROUNDS", 1)
    low, high = SMALL[curve.panel]
    small = replace(curve, sizes=(low, high), times=1)
    timings = growth.measured(small)
    assert set(timings) == {str(low), str(high)}
    assert all(seconds > 0 for seconds in timings.values())


def test_run_draws_a_panel_for_each_thing_that_varies(monkeypatch, tmp_path):
    made = [
        Curve(panel, name, (1, 10), lambda size: lambda: None)
        for panel, name in [("rooms", "cleaning"), ("rooms", "heating"), ("guests", "cooking")]
    ]
    monkeypatch.setattr(growth, "curves", lambda: made)
    monkeypatch.setenv("GROWTH_FIGURE", str(tmp_path / "growth.svg"))
    assert len(list(growth.run())) == 3 * 5
    ElementTree.parse(tmp_path / "growth.svg")
    text = Path(tmp_path / "growth.svg").read_text()
    assert all(f">{word}" in text for word in ("rooms", "guests", "cleaning", "heating", "cooking"))
