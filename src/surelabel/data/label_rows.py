"""Tables of labels: a header, then one line per sample with its class and, perhaps, how it was chosen."""

import csv
import difflib
import itertools
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from surelabel.data.class_names import DOUBTFUL, class_name, class_names
from surelabel.utils.csv import delimiter_of, escape_formula, lines_of
from surelabel.utils.errors import UserError

FILE_COLUMNS = ("path", "file", "image", "sample")
ROW_COLUMNS = ("sample", "row")
ID_COLUMNS = ("id", *FILE_COLUMNS)
CLASS_COLUMNS = ("label", "class")
DRAWN_COLUMN = "drawn"
COMPARED = 10_000  # ids searched for a similar one; more would take minutes
SUGGESTED, RANDOM = "suggested", "random"

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class LabelRow:
    """A line of the table. `suggested`: the label was asked for because the sample is hard; it is no random one."""

    line: int
    sample: str
    label: str  # empty if it is not known
    written: str  # how the label is spelt
    suggested: bool


def read_label_rows(path: Path, columns: tuple[str, ...] = FILE_COLUMNS) -> list[LabelRow]:
    """All lines of a .csv file, one of whose `columns` names the samples."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = lines_of(stream)
            first = next(lines, "")
            reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter_of(first), strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            sample, label = (_column(path, header, names) for names in (columns, CLASS_COLUMNS))
            drawn = header.index(DRAWN_COLUMN) if DRAWN_COLUMN in header else None
            rows = []
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if row and len(row) != len(header):
                    raise UserError(f"{where}: {len(row)} columns instead of {len(header)}")
                if row:
                    suggested = drawn is not None and _is_suggested(row[drawn], where)
                    written = _unescaped(row[label].strip())
                    rows.append(LabelRow(reader.line_num, row[sample].strip(), class_name(written), written, suggested))
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from error


def by_sample(path: Path, rows: Iterable[tuple[Key, LabelRow]]) -> dict[Key, LabelRow]:
    """The rows by what they name, each of which must be named once and have a class or none."""
    found: dict[Key, LabelRow] = {}
    for key, row in rows:
        if key in found:
            before = found[key]
            classes_given = f"as {before.label or 'unlabelled'} and as {row.label or 'unlabelled'}"
            how = "with the same class" if before.label == row.label else classes_given
            raise UserError(
                f"{path}, lines {before.line} and {row.line}: {row.sample} is listed twice, {how}; keep one line"
            )
        if row.label in DOUBTFUL:
            raise UserError(
                f"{path}, line {row.line}: {row.label} may be a class or mean unlabelled: leave the class of "
                "unlabelled samples empty, or rename the class"
            )
        found[key] = row
    return found


class Labels(dict[Key, LabelRow]):
    """The rows of a table that have a class, by what they name; at least one must."""

    def __init__(self, path: Path, rows: dict[Key, LabelRow]) -> None:
        super().__init__((key, row) for key, row in rows.items() if row.label)
        if not self:
            raise UserError(f"{path} names no class of any sample: write the class beside some of them")
        self.notes = tuple(f"{path}: {note}" for note in class_names(row.written for row in rows.values()).notes)


def named_rows(path: Path, rows: int) -> Labels[int]:
    """The labelled ones of the rows that a file names by their numbers, from 0."""

    def number(row: LabelRow) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", row.sample) or int(row.sample) >= rows:
            raise UserError(
                f"{path}, line {row.line}: there is no row {row.sample!r}: there are {rows} rows, which are numbered "
                f"from 0 to {rows - 1}"
            )
        return int(row.sample)

    return Labels(path, by_sample(path, ((number(row), row) for row in read_label_rows(path, ROW_COLUMNS))))


def named_ids(path: Path, ids: Sequence[str], column: str | None = None) -> Labels[int]:
    """The places of those of the `ids` that a file gives a class; `column` names them, where it is not `sample`."""
    place = {name: number for number, name in enumerate(ids)}

    def number(row: LabelRow) -> int:
        # See `escape_formula`.
        name = row.sample if row.sample in place else row.sample.removeprefix("'")
        if name not in place:
            raise UserError(f"{path}, line {row.line}: there is no id {row.sample!r}.{_hint(name, ids)}")
        return place[name]

    columns = ID_COLUMNS if column is None else (column.strip().lower(), "sample")
    return Labels(path, by_sample(path, ((number(row), row) for row in read_label_rows(path, columns))))


def _hint(name: str, ids: Sequence[str]) -> str:
    """The id that is probably meant, or an example."""
    near = difflib.get_close_matches(name, ids[:COMPARED], n=1)
    return f" Did you mean {str(near[0])!r}?" if near else f" There is, for example, {str(ids[0])!r}"


def _column(path: Path, header: list[str], names: tuple[str, ...]) -> int:
    present = [index for index, name in enumerate(header) if name in names]
    if len(present) != 1:
        raise UserError(
            f"{path} needs exactly one column named {' or '.join(names)}, but its first line is: "
            f"{', '.join(header)[:200] or '(empty)'}"
        )
    return present[0]


def _is_suggested(written: str, where: str) -> bool:
    drawn = written.strip().lower()
    if drawn not in (SUGGESTED, RANDOM, ""):
        raise UserError(
            f"{where}: {DRAWN_COLUMN} is {written.strip()!r}. It says how the sample was chosen, {SUGGESTED} or "
            f"{RANDOM}; a column that means something else needs another name"
        )
    return drawn == SUGGESTED


def _unescaped(written: str) -> str:
    """The class without the apostrophe that `escape_formula` adds."""
    return written[1:] if escape_formula(written[1:]) == written else written
