"""Times that can be compared on a busy machine, and a row of the benchmark table."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` says what the figure should be, such as "at least 3"."""

    what: str
    figure: float
    unit: str
    target: str = ""


def interleaved(candidates: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """The median seconds of each candidate, timed in turn (A B A B ...) after one untimed call each.

    Turns put the machine's other load on all candidates alike, and so make their ratios steadier than their times.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for call in candidates.values():
        call()
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}
