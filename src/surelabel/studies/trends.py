"""How a run changes while it trains: does it become less calibrated, and learn from more of its own mistakes?

That is the paper's sign of confirmation bias: ECE rises and the purity of the accepted pseudo-labels falls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from surelabel.studies.layout import Filled, Layout
from surelabel.studies.plan import Study
from surelabel.studies.records import Record
from surelabel.studies.statistics import LEVEL, difference
from surelabel.studies.tables import Table

Figures = Mapping[str, float | None]
QUARTERS = (1, 2, 3, 4)
# Key, format of a value; factor, format, and sign for the better of a change; headings.
CHANGES = (
    ("ece", "{:.2f}", 1, "{:+.3f}", -1, "ECE", "its change"),
    ("purity", "{:.0%}", 100, "{:+.1f}", 1, "purity", "its change, points"),
)


def course_table(study: Study, layout: Layout) -> Table | None:
    """By quarters of a run, and from the second to the last; None where no run has pseudo-labels."""
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
        words += [_course(runs, key, form), difference(changes, change, better)]
    return [*words, _course(runs, "acceptance", "{:.0%}")]


def _course(runs: Sequence[Sequence[Figures]], key: str, form: str) -> str:
    """The mean over runs of each quarter; '–' where none has any."""
    means = [_mean([figures[key] for figures in quarters]) for quarters in zip(*runs, strict=True)]
    if all(mean is None for mean in means):
        return "–"
    return " → ".join("–" if mean is None else form.format(mean) for mean in means)


def quarter(record: Record, number: int) -> Figures:
    """Means over the evaluations in this quarter of the run, from 1; purity is that of all that was accepted in it."""
    last = record["history"][-1]["step"]
    rows = [row for row in record["history"] if (number - 1) * last < 4 * row["step"] <= number * last]
    non_defaults = [row for row in rows if row["purity"] is not None]  # it is not known where nothing was accepted
    accepted = sum(row["acceptance"] for row in non_defaults)
    return {
        "ece": _mean([row["ece"] for row in rows]),
        "purity": sum(row["acceptance"] * row["purity"] for row in non_defaults) / accepted if non_defaults else None,
        "acceptance": _mean([row["acceptance"] for row in rows]),
    }


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
