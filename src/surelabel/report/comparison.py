"""Several runs side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surelabel.report import text as words
from surelabel.report.run_view import Chart, RunView, chart, line_of

# What is compared: its heading, whether more is better (None: neither), and how it is written.
COLUMNS: dict[str, tuple[str, bool | None, Callable[[float | None], str]]] = {
    "accuracy": ("accuracy", True, words.percent),
    "ece": ("ECE", False, words.plain),
    "nll": ("NLL", False, words.plain),
    "brier": ("Brier", False, words.plain),
    "purity": ("purity", True, words.percent),
    "steps": ("steps", None, words.count),
    "seconds": ("time", None, words.time_taken),
}
CURVES = {
    "accuracy": ("Accuracy", True),
    "ece": ("Calibration error (ECE)", False),
    "confidence": ("Confidence", True),
    "purity": ("Purity of the accepted pseudo-labels", True),
    "acceptance": ("Accepted pseudo-labels", True),
}


@dataclass(frozen=True)
class Cell:
    """A figure of a run, as text, and whether no run on the same data has a better one."""

    value: float | None
    text: str
    best: bool


def comparison(runs: Sequence[RunView]) -> list[list[Cell]]:
    """A row of cells for each run, in the order of `COLUMNS`."""
    values = [_values(run) for run in runs]
    return [
        [_cell(key, row[key], [other[key] for other, its in zip(values, runs, strict=True) if same_data(run, its)])
         for key in COLUMNS]
        for run, row in zip(runs, values, strict=True)
    ]  # fmt: skip


def _values(run: RunView) -> dict[str, float | None]:
    last = run.recorded.last
    return {
        **{key: run.averaged.get(key) for key in ("accuracy", "ece", "nll", "brier")},
        "purity": last.get("purity"),
        "steps": last.get("step"),
        "seconds": run.recorded.seconds,
    }


def _cell(key: str, value: float | None, rivals: list[float | None]) -> Cell:
    _, more, write = COLUMNS[key]
    known = [rival for rival in rivals if rival is not None]
    best = more is not None and len(known) > 1 and value == (max(known) if more else min(known))
    return Cell(value, write(value), best)


def same_data(one: RunView, other: RunView) -> bool:
    """Whether two runs were made with the same training data, so that their figures can be compared."""
    if one is other:
        return True
    mine, its = one.recorded, other.recorded
    return mine.data_hash is not None and (mine.data_hash, mine.config.data) == (its.data_hash, its.config.data)


def beside(runs: Sequence[RunView]) -> list[tuple[RunView, str]]:
    """The reliability diagrams that there are, to stand side by side; the runs' own parts have them once more."""
    return [
        (run, run.reliability.replace(f"{run.anchor}-", f"all-{run.anchor}-"))
        for run in runs
        if run.reliability is not None
    ]


def overlaid(runs: Sequence[RunView]) -> list[Chart]:
    """Each kind of curve with a line for each run. All runs are in the legend, so that a run keeps its line."""
    charts = []
    for key, (title, percent) in CURVES.items():
        lines = [line_of(run.recorded, key, run.name) for run in runs]
        if any(line.drawable for line in lines):
            charts += chart(title, lines, percent, f"all-{key}")
    return charts
