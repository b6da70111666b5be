"""How a run changes while it trains: does it become less calibrated, and learn from more of its own mistakes?

That is the paper's sign of confirmation bias: ECE rises and the purity of the accepted pseudo-labels falls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from surelabel.study.layout import Filled, Layout
from surelabel.study.plan import Study
from surelabel.study.results import Record
from surelabel.study.statistics import difference
from surelabel.study.tables import Table

Figures = Mapping[str, float | None]
# Key, format of a value; factor, format, and sign for the better of a change; headings.
CHANGES = (
    ("ece", "{:.3f}", 1, "{:+.3f}", -1, "ECE", "its change"),
    ("purity", "{:.0%}", 100, "{:+.1f}", 1, "purity", "its change, points"),
)


def course_table(study: Study, layout: Layout) -> Table | None:
    """From the second quarter of a run to its last; None where no run has pseudo-labels."""
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
        "Means over the second quarter of a run → over its last quarter, averaged over seeds; the change, its "
        "confidence interval and for how many seeds it is for the better, as below. Confirmation bias would have ECE "
        "rise and purity fall. The first quarter is left out: there selection begins, and hardly anything is accepted."
    )
    return Table("Through training", headings, rows, caption)


def _changes(cell: Filled) -> list[str]:
    quarters = [(quarter(record, 2), quarter(record, 4)) for _, record in sorted(cell.records.items())]
    words = []
    for key, form, factor, change, better, *_ in CHANGES:
        known = _known(quarters, key)
        words += [_from_to(known, form), difference([factor * (late - early) for early, late in known], change, better)]
    return [*words, _from_to(_known(quarters, "acceptance"), "{:.0%}")]


def _known(quarters: Sequence[tuple[Figures, Figures]], key: str) -> list[tuple[float, float]]:
    pairs = [(early[key], late[key]) for early, late in quarters]
    return [(early, late) for early, late in pairs if early is not None and late is not None]


def _from_to(known: Sequence[tuple[float, float]], form: str) -> str:
    if not known:
        return "–"
    return " → ".join(form.format(sum(values) / len(values)) for values in zip(*known, strict=True))


def quarter(record: Record, number: int) -> Figures:
    """Means over the evaluations in this quarter of the run, from 1; purity is that of all that was accepted in it."""
    last = record["history"][-1]["step"]
    rows = [row for row in record["history"] if (number - 1) * last < 4 * row["step"] <= number * last]
    told = [row for row in rows if row["purity"] is not None]  # it is not known where nothing was accepted
    accepted = sum(row["acceptance"] for row in told)
    return {
        "ece": _mean([row["ece"] for row in rows]),
        "purity": sum(row["acceptance"] * row["purity"] for row in told) / accepted if told else None,
        "acceptance": _mean([row["acceptance"] for row in rows]),
    }


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
