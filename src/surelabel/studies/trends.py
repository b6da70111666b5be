"""Trends during training: ECE, and the purity of the accepted pseudo-labels.

The paper's sign of confirmation bias is that ECE rises while purity falls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from surelabel.studies.layout import Filled, Layout
from surelabel.studies.plan import Study
from surelabel.studies.records import Record
from surelabel.studies.statistics import LEVEL, difference
from surelabel.studies.tables import Table

Metrics = Mapping[str, float | None]
QUARTERS = (1, 2, 3, 4)
# Key, format; factor, format and sign of an improvement, for changes; headings.
CHANGES = (
    ("ece", "{:.2f}", 1, "{:+.3f}", -1, "ECE", "its change"),
    ("purity", "{:.0%}", 100, "{:+.1f}", 1, "purity", "its change, points"),
)


def trend_table(study: Study, layout: Layout) -> Table | None:
    """Means by quarter of a run, and the change; None if no run has pseudo-labels."""
    rows = []
    for column in layout.columns:
        for row in layout.rows:
            cell = layout.cells.get((row, column))
            if cell is not None and cell.records:
                rows.append([column, row, str(len(cell.records)), *_changes(cell)])
    if all(row[5] == "–" for row in rows):
        return None
    headings = ["data", study.heading, "seeds", *(word for change in CHANGES for word in change[-2:]), "accepted"]
    caption = (
        "Means over the four quarters of a run, averaged over seeds; the change from the second to the last, its "
        f"{LEVEL:.0%} confidence interval, and for how many seeds it is for the better. Confirmation bias would have "
        "ECE rise and purity fall. The first quarter, in which selection begins, is left out of the change."
    )
    return Table("Through training", headings, rows, caption)


def _changes(cell: Filled) -> list[str]:
    runs = [[quarter(record, number) for number in QUARTERS] for record in cell.records.values()]
    words = []
    for key, form, factor, change, better, *_ in CHANGES:
        pairs = [(second[key], last[key]) for _, second, _, last in runs]
        changes = [factor * (last - second) for second, last in pairs if second is not None and last is not None]
        words += [_by_quarter(runs, key, form), difference(changes, change, better)]
    return [*words, _by_quarter(runs, "acceptance", "{:.0%}")]


def _by_quarter(runs: Sequence[Sequence[Metrics]], key: str, form: str) -> str:
    """The mean over runs of each quarter; '–' if no run has the metric."""
    means = [_mean([metrics[key] for metrics in quarters]) for quarters in zip(*runs, strict=True)]
    if all(mean is None for mean in means):
        return "–"
    return " → ".join("–" if mean is None else form.format(mean) for mean in means)


def quarter(record: Record, number: int) -> Metrics:
    """Means over the evaluations of a quarter (1 to 4); purity is weighted by acceptance."""
    last = record["history"][-1]["step"]
    rows = [row for row in record["history"] if (number - 1) * last < 4 * row["step"] <= number * last]
    accepting = [row for row in rows if row["purity"] is not None]
    accepted = sum(row["acceptance"] for row in accepting)
    return {
        "ece": _mean([row["ece"] for row in rows]),
        "purity": sum(row["acceptance"] * row["purity"] for row in accepting) / accepted if accepting else None,
        "acceptance": _mean([row["acceptance"] for row in rows]),
    }


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
