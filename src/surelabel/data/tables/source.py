"""Tables as data: rows are samples, one column is the label."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import Table
from surelabel.data.arrays.source import SampleSource
from surelabel.data.groups import group_numbers
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.data.tables.columns import MISSING, Column, Columns, as_texts, in_row, numeric
from surelabel.data.tables.encoding import FEW_ROWS, Encoding, check_numbers, identifies, learn
from surelabel.data.tables.files import columns_of, read_file, read_table
from surelabel.data.tables.labels import named_classes, with_labels
from surelabel.utils.errors import UserError, suggestion
from surelabel.utils.words import some

LABEL_COLUMNS = ("label", "class", "target", "y")
SPLIT_COLUMN = "split"
BROKEN_NUMBERS = (
    "write numbers as 1234.5, and leave a cell empty where there is none; if they are names, declare the column by "
    "table.categorical, or leave it out by table.ignored"
)
MAY_MEAN_UNLABELLED = ("unknown", "unlabelled", "unlabeled", "missing")


class NoLabelColumn(UserError):
    """A table does not say which of its columns holds the labels."""


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
    read = read_table(path, lambda name: name in names or _may_be_label(name, label_column))
    columns, notes = read.columns, read.notes
    try:
        label = _label_column(columns, label_column)
        groups = None if group_column is None else _groups(columns, group_column, label)
        texts, suggested = with_labels(columns.pop(label), label_files)
        in_test = _in_test(columns.pop(SPLIT_COLUMN)) if SPLIT_COLUMN in columns else np.zeros(len(texts), bool)
        if in_test.all():
            raise UserError(f"column {SPLIT_COLUMN!r} leaves no row to train on")
        for name in ignored:
            if columns.pop(name, None) is None and name != group_column:
                raise UserError(f"table.ignored: there is no column {name!r}; the table has {_listed(columns)}")
        counting = [name for name, values in columns.items() if _counts_rows(values)]
        notes = (*notes, *(f"column {name!r} is left out: it only counts the rows" for name in counting))
        classes = _classes(texts[~in_test], label)
        notes = (*notes, *_doubted(classes))
        labels = _numbered(texts, classes, label)
        if (labels[in_test] == UNLABELLED).any():
            row = int(np.argmax(in_test & (labels == UNLABELLED)))
            raise UserError(f"the test sample {in_row(row)} has no label: label it, or make it a training row")
        if groups is not None and np.isin(groups[in_test], groups[~in_test]).any():
            notes = (*notes, f"Rows of one {group_column!r} are in training and in the test: its metrics flatter")
        used = {name: values for name, values in columns.items() if name not in counting}
        check_numbers(used, {*categorical, *read.categories}, BROKEN_NUMBERS)
        rows = np.flatnonzero(~in_test), np.flatnonzero(in_test)
        encoding, left_out = learn({name: values[rows[0]] for name, values in used.items()}, categorical, rows[0])
        encoded = encoding.encode(used)
        train = TableSource(encoded[rows[0]], labels[rows[0]], classes, encoding, (*notes, *left_out), rows[0])
        train.groups, train.suggested = None if groups is None else groups[rows[0]], suggested[rows[0]]
        named = [as_texts(own)[rows[0]] for name, own in used.items() if name not in categorical and identifies(own)]
        train.ids = named[0] if named else None
        test = TableSource(encoded[rows[1]], labels[rows[1]], classes, encoding, (), rows[1]) if in_test.any() else None
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
    unused = [name for name in columns if name not in known and not _may_be_label(name, label_column)]
    notes = (f"{path}: not used, as the network was trained without: {_listed(unused)}",) if unused else ()
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
    columns = read_table(path, lambda name: name in encoding.texts or _may_be_label(name, label_column)).columns
    try:
        label = _label_column(columns, label_column)
        texts = as_texts(columns.pop(label))
        if not set(texts) <= {"", *classes}:
            texts = named_classes(texts)
        in_test = _in_test(columns[SPLIT_COLUMN]) if SPLIT_COLUMN in columns else np.zeros(len(texts), bool)
        rows = np.flatnonzero(in_test) if in_test.any() else np.arange(len(texts))
        unknown = sorted(set(texts[rows]) - {"", *classes})
        if unknown:
            raise UserError(f"column {label!r} has the class {unknown[0]!r}, but the run knows only {_listed(classes)}")
        labels = _numbered(texts[rows], tuple(classes), label)
        return TableSource(encoding.encode(columns)[rows], labels, classes, encoding, numbers=rows)
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error


def _may_be_label(name: str, asked: str | None) -> bool:
    """Whether a column is to be read as texts because it holds the labels."""
    return name == asked or (asked is None and name.lower() in LABEL_COLUMNS)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name for part in listed.split(",") if (name := part.strip()))


def _listed(names: Sequence[str] | Columns) -> str:
    shown = list(names)[:20]
    return ", ".join(map(repr, shown)) + (", ..." if len(names) > len(shown) else "") if shown else "no columns"


def _label_column(columns: Columns, asked: str | None) -> str:
    if asked is not None:
        if asked not in columns:
            raise NoLabelColumn(f"label_column: there is no column {asked!r}; the table has {_listed(columns)}")
        return asked
    found = [name for name in columns if name.lower() in LABEL_COLUMNS]
    if len(found) == 1:
        return found[0]
    problem = f"several columns may hold the labels ({', '.join(found)})" if found else "no column is named as labels"
    raise NoLabelColumn(
        f"{problem}: name it by label_column, or call it {' or '.join(LABEL_COLUMNS)}. The table has {_listed(columns)}"
    )


def _groups(columns: Columns, asked: str, label: str) -> NDArray[np.int64]:
    """The group of each row by a column, which is taken out."""
    if asked in (label, SPLIT_COLUMN):
        raise UserError(
            f"group_column: column {asked!r} holds the {'labels' if asked == label else 'split'}: name the one that "
            "says which rows belong together"
        )
    if asked not in columns:
        raise UserError(f"group_column: there is no column {asked!r}.{suggestion(asked, columns)}")
    names = as_texts(columns.pop(asked))
    return group_numbers(names.astype(np.str_), np.isin(names, MISSING))


def _counts_rows(values: Column) -> bool:
    """Whether this is the row number that many programs save beside a table; rows sorted by class would betray it."""
    return numeric(values) and len(values) > FEW_ROWS and np.array_equal(values, values[0] + np.arange(len(values)))


def _in_test(values: Column) -> NDArray[np.bool_]:
    """Which rows belong to the test set."""
    words = [str(text).lower() for text in as_texts(values)]
    wrong = [word for word in words if word not in ("train", "test", "")]
    if wrong:
        raise UserError(
            f"column {SPLIT_COLUMN!r} says which rows are for the test: train, test or nothing, not {wrong[0]!r}. "
            "If it means something else, name it otherwise"
        )
    return np.array([word == "test" for word in words])


def _doubted(classes: Sequence[str]) -> list[str]:
    """Words about classes that may not be meant as such."""
    by_case: dict[str, list[str]] = {}
    for name in classes:
        by_case.setdefault(name.casefold(), []).append(name)
    return [
        f"Is {name!r} a class? If it means unlabelled, leave the cells of these rows empty"
        for name in classes
        if name.lower() in MAY_MEAN_UNLABELLED
    ] + [f"Are {_listed(names)} different classes? They are taken for such" for names in by_case.values() if names[1:]]


def _classes(texts: NDArray[np.object_], label: str) -> tuple[str, ...]:
    """The classes that the training rows name, numbers in their own order."""
    names: list[str] = np.unique(texts[texts != ""]).tolist()
    if len(names) < 2:
        raise UserError(
            f"column {label!r} names {'no class' if not names else f'the class {names[0]!r} alone'}: at least two are "
            "needed, and an empty cell means unlabelled"
        )
    doubtful = [name for name in names if name in MISSING or (name == "-1" and len(names) > 2)]
    if doubtful:
        raise UserError(
            f"column {label!r}: {doubtful[0]} may be a class or mean unlabelled. Leave the cells of unlabelled rows "
            "empty, or give the class another name"
        )
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(names)


def _numbered(texts: NDArray[np.object_], classes: tuple[str, ...], label: str) -> NDArray[np.int64]:
    number = {"": UNLABELLED} | {name: place for place, name in enumerate(classes)}
    unknown = [text for text in texts if text not in number]
    if unknown:
        raise UserError(f"column {label!r}: no training row is of the class {unknown[0]!r}, which a test row has")
    return np.array([number[text] for text in texts], dtype=np.int64)
