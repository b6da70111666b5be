"""Tables as data: rows are samples, one column is the label."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import Table
from surelabel.data.arrays.source import SampleSource
from surelabel.data.source import DataSet
from surelabel.data.tables.columns import Column, as_texts, numeric
from surelabel.data.tables.encoding import FEW_ROWS, Encoding, check_numbers, identifies, learn
from surelabel.data.tables.files import columns_of, read_file, read_table
from surelabel.data.tables.rows import listed, may_be_label, take_known_labels, take_labels
from surelabel.utils.errors import UserError
from surelabel.utils.words import some

BROKEN_NUMBERS = (
    "write numbers as 1234.5, and leave a cell empty where there is none; if they are names, declare the column by "
    "table.categorical, or leave it out by table.ignored"
)


class TableSource(SampleSource):
    """The rows of a table as numbers, with the encoding that made them, and notes on what was left out.

    `numbers` are the rows' places in the file [N], from 0, where the source is a part of it.
    """

    kind = "table"

    def __init__(
        self,
        rows: NDArray[np.float32],
        labels: NDArray[np.int64] | None,
        classes: Sequence[str],
        encoding: Encoding,
        notes: tuple[str, ...] = (),
        numbers: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(rows, labels, classes)
        self.rows = rows  # [N, d]
        self.encoding: Encoding = encoding
        self.notes = notes
        self.numbers = np.arange(len(rows)) if numbers is None else numbers
        kinds = [f"of {kind} ({some(names)})" for kind, names in encoding.names.items() if names]
        self.description = f"rows, with columns {' and '.join(kinds)}"

    def names(self, index: NDArray[np.int64]) -> list[str | int]:
        numbers: list[str | int] = self.numbers[index].tolist()
        return numbers


def table_data(name: str, train: TableSource, test: TableSource | None = None) -> DataSet:
    """A data set of tables. Their encoding has normalised them already, in double precision."""
    width = train.shape[0]
    return DataSet(name, train, test, ((0.0,) * width, (1.0,) * width))


def load(
    path: str | Path,
    label_column: str | None = None,
    settings: Table = Table(),  # noqa: B008
    group_column: str | None = None,
    label_files: Sequence[str] = (),
) -> DataSet:
    """A CSV or Parquet file; `docs/tables.md` describes what it may hold. `label_files` have labels of more rows."""
    path = Path(path)
    categorical, ignored = _names(settings.categorical), _names(settings.ignored)
    names = {*categorical, group_column}
    read = read_table(path, lambda name: name in names or may_be_label(name, label_column))
    columns, notes = read.columns, read.notes
    try:
        labelled = take_labels(columns, label_column, group_column, label_files)
        for name in ignored:
            if columns.pop(name, None) is None and name != group_column:
                raise UserError(f"table.ignored: there is no column {name!r}; the table has {listed(columns)}")
        counting = [name for name, values in columns.items() if _counts_rows(values)]
        notes = (*notes, *(f"column {name!r} is left out: it only counts the rows" for name in counting))
        notes = (*notes, *labelled.notes)
        used = {name: values for name, values in columns.items() if name not in counting}
        check_numbers(used, {*categorical, *read.categories}, BROKEN_NUMBERS)
        rows = labelled.parts
        encoding, left_out = learn({name: values[rows[0]] for name, values in used.items()}, categorical, rows[0])
        encoded, labels, classes = encoding.encode(used), labelled.labels, labelled.classes
        train = TableSource(encoded[rows[0]], labels[rows[0]], classes, encoding, (*notes, *left_out), rows[0])
        train.groups = None if labelled.groups is None else labelled.groups[rows[0]]
        train.suggested = labelled.suggested[rows[0]]
        named = [as_texts(own)[rows[0]] for name, own in used.items() if name not in categorical and identifies(own)]
        train.ids = named[0] if named else None
        test = TableSource(encoded[rows[1]], labels[rows[1]], classes, encoding, (), rows[1]) if len(rows[1]) else None
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error
    return table_data(path.stem, train, test)


def load_unlabelled(
    path: str | Path, encoding: Encoding, classes: Sequence[str], label_column: str | None = None
) -> TableSource:
    """All rows of a new table, encoded as the training table was.

    Columns that this had not are passed over, and said; the labels, where it has some, are passed over in silence.
    """
    path = Path(path)
    return encoded(path, read_file(path), encoding, classes, label_column)


def encoded(
    path: Path, table: Any, encoding: Encoding, classes: Sequence[str], label_column: str | None, first: int = 0
) -> TableSource:
    """The rows of an arrow table, which is the file at `path` or, from the row `first` on, a piece of it."""
    columns = columns_of(table, lambda name: name in encoding.texts).columns
    known = {column.name for column in encoding.columns}
    unused = [name for name in columns if name not in known and not may_be_label(name, label_column)]
    notes = (f"{path}: not used, as the network was trained without: {listed(unused)}",) if unused else ()
    try:
        rows = encoding.encode(columns, first)
        return TableSource(rows, None, classes, encoding, notes, np.arange(first, first + len(rows)))
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error


def load_labelled(
    path: str | Path, encoding: Encoding, classes: Sequence[str], label_column: str | None = None
) -> TableSource:
    """The rows of another table with their labels, encoded as the training table was; its test rows if it has any."""
    path = Path(path)
    columns = read_table(path, lambda name: name in encoding.texts or may_be_label(name, label_column)).columns
    try:
        rows, labels = take_known_labels(columns, label_column, classes)
        return TableSource(encoding.encode(columns)[rows], labels, classes, encoding, numbers=rows)
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name for part in listed.split(",") if (name := part.strip()))


def _counts_rows(values: Column) -> bool:
    """Whether this is the row number that many programs save beside a table; rows sorted by class would betray it."""
    return numeric(values) and len(values) > FEW_ROWS and np.array_equal(values, values[0] + np.arange(len(values)))
