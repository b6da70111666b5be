"""Several runs side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from surelabel.report import text as words
from surelabel.report.run_view import Chart, RunView, chart, few, line_of

# For each column its heading, whether more is better (None: neither), and its format.
COLUMNS: dict[str, tuple[str, bool | None, Callable[[float | None], str]]] = {
    "accuracy": ("accuracy", True, words.percent),
    "ece": ("ECE", False, words.plain),
    "nll": ("NLL", False, words.plain),
    "brier": ("Brier", False, words.plain),
    "purity": ("purity", True, words.percent),
    "effective_classes": ("classes in effect", None, words.one_decimal),
    "steps": ("steps", None, words.count),
    "seconds": ("time", None, words.time_taken),
}
CURVES = {
    "accuracy": ("Accuracy", True),
    "ece": ("Calibration error (ECE)", False),
    "confidence": ("Confidence", True),
    "purity": ("Purity of the accepted pseudo-labels", True),
    "acceptance": ("Accepted pseudo-labels", True),
    "effective_classes": ("Of how many classes they are, in effect", False),
}


@dataclass(frozen=True)
class Cell:
    """A value of a run, and whether it is the best among the runs on the same data."""

    value: float | None
    text: str
    best: bool


def comparison(runs: Sequence[RunView]) -> list[list[Cell]]:
    """One row of cells per run, in the order of `COLUMNS`."""
    values = [_values(run) for run in runs]
    return [
        [_cell(run, key, row[key], [its[key] for its, other in zip(values, runs, strict=True) if same_data(run, other)])
         for key in COLUMNS]
        for run, row in zip(runs, values, strict=True)
    ]  # fmt: skip


def _values(run: RunView) -> dict[str, float | None]:
    last = run.recorded.last
    return {
        **{key: run.averaged.get(key) for key in ("accuracy", "nll", "brier")},
        "ece": None if run.few else run.averaged.get("ece"),
        "purity": last.get("purity"),
        "effective_classes": last.get("effective_classes"),
        "steps": last.get("step"),
        "seconds": run.recorded.seconds,
    }


def _cell(run: RunView, key: str, value: float | None, rivals: list[float | None]) -> Cell:
    _, more, write = COLUMNS[key]
    known = [rival for rival in rivals if rival is not None]
    best = more is not None and len(known) > 1 and value == (max(known) if more else min(known))
    return Cell(value, write(value) + (words.interval(value, run.samples, run.few) if key == "accuracy" else ""), best)


def same_data(one: RunView, other: RunView) -> bool:
    """Whether two runs have the same data, so that their metrics can be compared."""
    if one is other:
        return True
    a, b = one.recorded, other.recorded
    return a.data_hash is not None and (a.data_hash, a.config.data) == (b.data_hash, b.config.data)


def beside(runs: Sequence[RunView]) -> list[tuple[RunView, str]]:
    """The reliability diagrams to show side by side; with other ids, as each run's article has its diagram too."""
    return [
        (run, run.reliability.replace(f"{run.anchor}-", f"all-{run.anchor}-"))
        for run in runs
        if run.reliability is not None
    ]


def overlaid(runs: Sequence[RunView]) -> list[Chart]:
    """Each kind of curve with one line per run; also for runs without values, so that a run keeps its style."""
    charts = []
    for key, (title, percent) in CURVES.items():
        lines = [line_of(run.recorded, "" if key == "ece" and few(run.recorded) else key, run.name) for run in runs]
        if any(line.drawable for line in lines):
            charts.append(chart(title, lines, percent, f"all-{key}"))
    return charts
