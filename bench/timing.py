"""Times that can be compared on a busy machine, and a row of the benchmark table."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` says what the figure should be, such as "at least 3"."""

    what: str
    figure: float
    unit: str
    target: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Timings(Mapping[str, float]):
    """The median seconds of each candidate, and ratios of candidates that took turns."""

    rounds: Mapping[str, list[float]]

    def __getitem__(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.rounds)

    def __len__(self) -> int:
        return len(self.rounds)

    def ratio(self, what: str, name: str, base: str) -> Row:
        """The median over rounds of name's seconds / base's seconds in the same round, with its interval."""
        ratios = [mine / theirs for mine, theirs in zip(self.rounds[name], self.rounds[base], strict=True)]
        return Row(what, statistics.median(ratios), "x the time", interval=median_interval(ratios))


def interleaved(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, clock: Callable[[], float] | None = None
) -> Timings:
    """The seconds of each candidate, timed in turn (A B, B A, A B, ...) after one untimed call each.

    Turns put the machine's other load on all candidates alike, and so make their ratios steadier than their times;
    changing the order keeps a drift, or what one candidate leaves behind, from favouring another. Candidates of one
    thread that take long are interrupted by the machine's other load: for them, `time.process_time` is the better
    clock.
    """
    clock = clock or time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates)
    for call in candidates.values():
        call()
    for _ in range(rounds):
        for name in order:
            start = clock()
            candidates[name]()
            seconds[name].append(clock() - start)
        order.reverse()
    return Timings(seconds)


def several(work: Callable[[], object], times: int) -> None:
    """A candidate that is timed so many times at once."""
    for _ in range(times):
        work()


def median_interval(values: list[float], level: float = LEVEL) -> tuple[float, float]:
    """The narrowest pair of order statistics, as many from below as from above, that holds the median at this level.

    How many of n independent values lie below their median is Binomial(n, 1/2) whatever their distribution. So the
    interval needs no normal times (they have spikes) and its level is kept by few values, where a bootstrap's is not;
    being made of steps, it is a little wider than asked.
    """
    ordered, count = sorted(values), len(values)
    missed = 2 * 0.5**count  # the chance that the median lies outside of the outermost values
    if missed > 1 - level:
        raise ValueError(f"{count} values are too few for an interval of the median at {level:.0%}")
    outer = 0
    while (missed := missed + 2 * math.comb(count, outer + 1) * 0.5**count) <= 1 - level:
        outer += 1
    return ordered[outer], ordered[-1 - outer]
