import random

import pytest
from scipy import stats

from bench import __main__ as table
from bench import timing
from bench.timing import Row, Timings, interleaved, median_interval


class Clock:
    """A clock that moves only when a candidate says that it took some time."""

    def __init__(self, monkeypatch):
        self.now, self.calls = 0.0, []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def candidate(self, name, seconds):
        durations = iter(seconds)

        def call():
            self.calls.append(name)
            self.now += next(durations)

        return call


def test_interleaved_alternates_and_skips_the_first_call(monkeypatch):
    clock = Clock(monkeypatch)
    seconds = interleaved(
        {"a": clock.candidate("a", [100, 1, 2, 30]), "b": clock.candidate("b", [100, 5, 4, 6])}, rounds=3
    )
    assert "".join(clock.calls) == "ab" + "ab" + "ba" + "ab"
    assert dict(seconds) == {"a": 2, "b": 5}
    assert seconds.rounds == {"a": [1, 2, 30], "b": [5, 4, 6]}


def test_interleaved_reads_the_clock_that_it_is_given():
    ticks = iter([0, 3, 10, 14, 20, 25])
    assert interleaved({"a": lambda: None}, rounds=3, clock=lambda: next(ticks)).rounds == {"a": [3, 4, 5]}


def test_ratio_is_taken_within_each_round():
    slow, fast = [3.0, 300.0, 33.0, 3.3, 30.0, 9.0, 6.0], [1.0, 100.0, 10.0, 1.0, 10.0, 3.0, 3.0]
    row = Timings({"slow": slow, "fast": fast}).ratio("slow / fast", "slow", "fast")
    assert row == Row("slow / fast", 3.0, "x the time", interval=(2.0, 3.3))


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("count", [8, 9, 15, 17, 40])
def test_median_interval_inverts_the_sign_test(count, level):
    values = [float(value) for value in range(1, count + 1)]
    random.Random(0).shuffle(values)
    low, high = median_interval(values, level)
    # The median is not rejected between values k and k + 1 of n if k of n below it are no surprise.
    kept = [below for below in range(count + 1) if stats.binomtest(below, count).pvalue > 1 - level + 1e-12]
    assert (low, high) == (kept[0], kept[-1] + 1)


@pytest.mark.parametrize("count", [6, 17])
def test_median_interval_has_its_exact_coverage(count):
    """Over 4,000 simulated runs; a right implementation fails this for one seed in a thousand."""
    draws, runs = random.Random(count), 4000
    intervals = [median_interval([draws.lognormvariate(0, 2) for _ in range(count)]) for _ in range(runs)]
    held = sum(low <= 1 <= high for low, high in intervals)
    outer = {6: 1, 17: 5}[count]
    rate = 1 - 2 * stats.binom.cdf(outer - 1, count, 0.5)
    assert rate >= 0.95
    assert stats.binomtest(held, runs, rate).pvalue > 1e-3


def test_median_interval_needs_six_values():
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)
    with pytest.raises(ValueError, match="5 values are too few"):
        median_interval([1.0, 2.0, 3.0, 4.0, 5.0])


def test_bench_table_shows_intervals(monkeypatch, capsys):
    class Module:
        @staticmethod
        def run():
            return [Row("speed", 12345.6, "images/s", "at least 3"), Row("ratio", 1.0123, "x", "", (1.0, 1.0249))]

    monkeypatch.setattr(table.importlib, "import_module", {"bench.views": Module}.get)
    assert table.main(["views"]) == 0
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["benchmark", "what", "figure", "95% interval", "unit", "target"]
    assert lines[2:] == [
        ["views", "speed", "12,346", "", "images/s", "at least 3"],
        ["views", "ratio", "1.012", "1.000 to 1.025", "x", ""],
    ]
