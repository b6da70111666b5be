"""The records of a study in the places of its table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from surelabel.study.plan import Cell, Study, job_key
from surelabel.study.results import Record


@dataclass(frozen=True)
class Filled:
    """A cell with its records by seed; of several choices, those of the most accurate one, which is named.

    `compared` are the records that differences are taken of, where they are those of another choice.
    """

    cell: Cell
    records: Mapping[int, Record]
    choice: str = ""
    compared: Mapping[int, Record] | None = None

    def figures(self, part: str, key: str) -> list[float | None]:
        """One figure of every seed: of `final`, `summary`, or the `pool` in the last stretch of training."""
        return [figure(record, part, key) for _, record in sorted(self.records.items())]

    def of(self, seeds: Iterable[int]) -> "Filled":
        """With these seeds alone."""
        return replace(self, records={seed: self.records[seed] for seed in seeds})

    def mean(self, key: str) -> float:
        """Of a final figure over the seeds."""
        return fmean(record["final"][key] for record in self.records.values())


@dataclass(frozen=True)
class Layout:
    """A study's cells by (row, column), with the orders of both."""

    rows: list[str]
    columns: list[str]
    cells: Mapping[tuple[str, str], Filled]

    def shared_seeds(self, column: str) -> list[int]:
        """The seeds that all cells of a column have that were run.

        A seed is easy or hard for every setting: with seeds of its own, a setting's mean would tell of these.
        """
        held = [set(cell.records) for (_, place), cell in self.cells.items() if place == column and cell.records]
        return sorted(set.intersection(*held)) if held else []


def figure(record: Record, part: str, key: str) -> float | None:
    held = record["history"][-1] if part == "pool" else record[part]
    value = held.get(key)
    return None if value is None else float(value)


def lay_out(study: Study, cells: Sequence[Cell], records: Mapping[str, Record], seeds: int | None = None) -> Layout:
    """The cells with what is finished of their runs: of every seed, or of the first `seeds` alone.

    A run that another study made with more seeds counts here too: two tables must not differ in what they both show.
    """
    known = 1 + max((record["seed"] for record in records.values()), default=-1)
    rows = [row for row in study.rows if any(cell.row == row for cell in cells)]
    rows += [row for row in dict.fromkeys(cell.row for cell in cells) if row not in rows]
    filled = {(cell.row, cell.column): fill(cell, records, seeds or max(cell.seeds, known)) for cell in cells}
    return Layout(rows, list(dict.fromkeys(cell.column for cell in cells)), filled)


def fill(cell: Cell, records: Mapping[str, Record], seeds: int) -> Filled:
    """The cell with the records of its most accurate choice, among those that have most seeds."""
    found = []
    for name, job in cell.choices:
        by_seed = {seed: job_key(job.seeded(seed)) for seed in range(seeds)}
        found.append((name, {seed: records[key] for seed, key in by_seed.items() if key in records}))
    most = max(len(held) for _, held in found)
    fair = [(name, held) for name, held in found if len(held) == most]
    if not most:
        return Filled(cell, {})
    name, held = max(fair, key=lambda choice: fmean(record["final"]["accuracy"] for record in choice[1].values()))
    compared = None if cell.compared is None else dict(found)[cell.compared]
    if len(cell.choices) == 1:
        name = ""
    elif len(fair) < len(found):
        name += ", others not run as often"
    return Filled(cell, held, name, compared)


def common(one: Filled, two: Filled) -> list[tuple[Record, Record]]:
    """The records of both by the seeds that both have, on the same labelled samples."""
    first, second = (cell.records if cell.compared is None else cell.compared for cell in (one, two))
    pairs = [(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]
    return [pair for pair in pairs if pair[0]["split"] == pair[1]["split"]]
