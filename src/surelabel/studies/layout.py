"""The records of a study, arranged as its table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

from surelabel.studies.plan import Cell, Study, job_key
from surelabel.studies.records import Record, precision_of


@dataclass(frozen=True)
class Filled:
    """A cell with its records by seed; of several choices, those of the most accurate one.

    `compared` are the records to compute differences with, if they are those of another choice.
    """

    cell: Cell
    records: Mapping[int, Record]
    choice: str = ""
    compared: Mapping[int, Record] | None = None

    def metrics(self, part: str, key: str) -> list[float | None]:
        """A metric by seed; `part` is "final", "summary", or "pool" for the last evaluation."""
        return [metric(record, part, key) for _, record in sorted(self.records.items())]

    def of(self, seeds: Iterable[int]) -> "Filled":
        """Only these seeds."""
        return replace(self, records={seed: self.records[seed] for seed in seeds})

    def mean(self, key: str) -> float:
        """The mean of a final metric over the seeds."""
        return fmean(record["final"][key] for record in self.records.values())


@dataclass(frozen=True)
class Layout:
    """A study's cells by (row, column), and the order of both."""

    rows: list[str]
    columns: list[str]
    cells: Mapping[tuple[str, str], Filled]

    def shared_seeds(self, column: str) -> list[int]:
        """The seeds that all cells of a column with any records have.

        Some seeds are easier for all settings, so means over different seeds are not comparable.
        """
        held = [set(cell.records) for (_, place), cell in self.cells.items() if place == column and cell.records]
        return sorted(set.intersection(*held)) if held else []


def metric(record: Record, part: str, key: str) -> float | None:
    """A metric by name; 'confidence − accuracy' is a difference, positive if over-confident."""
    held = record["history"][-1] if part == "pool" else record[part]
    values = [held.get(name) for name in key.split(" − ")]
    return None if None in values else float(values[0] - sum(values[1:]))


def lay_out(study: Study, cells: Sequence[Cell], records: Mapping[str, Record], seeds: int | None = None) -> Layout:
    """The cells with their finished runs, of all seeds or of the first `seeds` only.

    Extra seeds of other studies count too: two tables must agree where they show the same runs.
    """
    known = sorted({record["seed"] for record in records.values()}) if seeds is None else range(seeds)
    rows = [row for row in study.rows if any(cell.row == row for cell in cells)]
    rows += [row for row in dict.fromkeys(cell.row for cell in cells) if row not in rows]
    filled = {(cell.row, cell.column): fill(cell, records, known, seeds or cell.seeds) for cell in cells}
    return Layout(rows, list(dict.fromkeys(cell.column for cell in cells)), filled)


def fill(cell: Cell, records: Mapping[str, Record], known: Iterable[int], asked: int) -> Filled:
    """The cell with its records of these seeds, and of the most accurate of several choices.

    Choices are compared on the seeds that all of them have, once all have the first `asked` seeds;
    until then only those with the most seeds are compared.
    """
    found: dict[str, dict[int, Record]] = {name: {} for name, _ in cell.choices}
    for (name, job), seed in product(cell.choices, known):
        if record := records.get(job_key(job.seeded(seed))):
            found[name][seed] = record
    most = max(map(len, found.values()))
    if not most:
        return Filled(cell, {})
    decided = all(held.keys() >= set(range(asked)) for held in found.values())
    fair = [name for name, held in found.items() if decided or len(held) == most]
    shared = set.intersection(*(set(found[name]) for name in fair))
    best = max(fair, key=lambda name: fmean(found[name][seed]["final"]["accuracy"] for seed in shared or found[name]))
    named = "" if len(found) == 1 else best
    if named and not decided:
        named += f", so far ({most} of {asked} seeds)" if len(fair) == len(found) else ", others not run as often"
    return Filled(cell, found[best], named, None if cell.compared is None else found[cell.compared])


def side_by_side(study: Study, layout: Layout) -> Layout:
    """The layout for comparing rows: settings of one method on the shared seeds, if any."""
    if not study.settings:
        return layout
    seeds = {column: layout.shared_seeds(column) for column in layout.columns}
    cells = {
        (row, column): cell.of(seeds[column]) if cell.records and seeds[column] else cell
        for (row, column), cell in layout.cells.items()
    }
    return replace(layout, cells=cells)


def common(one: Filled, two: Filled) -> list[tuple[Record, Record]]:
    """Pairs of records with the same seed and the same labelled samples, computed in the same precision."""
    first, second = (cell.records if cell.compared is None else cell.compared for cell in (one, two))
    pairs = [(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]
    return [(one, two) for one, two in pairs if one["split"] == two["split"] and precision_of(one) == precision_of(two)]
