"""Read CSV and Parquet files with pyarrow."""

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.tables.columns import MISSING, Column, Columns, column
from surelabel.utils.csv import delimiter_of, lines_of
from surelabel.utils.errors import UserError, optional_import

BLOCK = 2**20  # bytes that pyarrow reads at once
NUMBER = 32  # bytes of a written number with its comma


@dataclass(frozen=True)
class Read:
    """The columns of a file, those stored as categories, and notes on columns left out."""

    columns: Columns
    categories: frozenset[str]
    notes: tuple[str, ...]


def read_table(path: Path, as_written: Callable[[str], bool]) -> Read:
    """The columns of a .csv or .parquet file."""
    return columns_of(read_file(path), as_written)


def read_file(path: Path) -> Any:
    """A .csv or .parquet file as an arrow table."""
    with optional_import("tables", f"the table {path}"):
        import pyarrow  # noqa: F401
    is_csv = path.suffix.lower() == ".csv"
    with reading(path):
        table = read_csv(path) if is_csv else _parquet(path)
    if not table.num_rows:
        raise UserError(f"{path} has no rows" + (" below its header" if is_csv else ""))
    return table


def columns_of(table: Any, as_written: Callable[[str], bool]) -> Read:
    """The columns of an arrow table. Texts are numbers if each is one or missing, unless `as_written(name)`."""
    from pyarrow import types

    columns: Columns = {}
    notes: list[str] = []
    index = _index(table)
    for name in table.column_names:
        if name in index and not as_written(name):
            notes.append(f"column {name!r} is left out: it is the index of a pandas frame")
            continue
        made = _column(table[name], as_written(name))
        if made is None:
            notes.append(f"column {name!r} is left out: it holds {table[name].type}, neither numbers nor texts")
        else:
            columns[name] = made
    categories = frozenset(name for name in columns if types.is_dictionary(table[name].type))
    return Read(columns, categories, tuple(notes))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise a `UserError` for what pyarrow raises of a damaged file."""
    from pyarrow import ArrowException

    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        yield
    except (OSError, UnicodeDecodeError, csv.Error, ArrowException) as error:
        kind = "a CSV file in UTF-8" if path.suffix.lower() == ".csv" else "a Parquet file"
        raise UserError(f"{path} cannot be read as {kind}: {error}") from error


def read_csv(path: Path, whole: bool = True) -> Any:
    """A CSV file as an arrow table, with all cells as texts; or a reader of it, block by block."""
    from pyarrow import csv as arrow
    from pyarrow import string

    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = lines_of(stream)
        first = next(lines, "")
        delimiter = delimiter_of(first)
        names = next(csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True), [])
    check_names(path, names)
    header = 4 * len(",".join(names).encode())  # at most, with quotation marks
    return (arrow.read_csv if whole else arrow.open_csv)(
        path,
        # The header must fit into the first block, and a row into two adjacent ones.
        read_options=arrow.ReadOptions(block_size=max(BLOCK, header, NUMBER * len(names))),
        parse_options=arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # As texts first: pyarrow infers types from the beginning of a large file only.
        convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, string())),
    )


def _parquet(path: Path) -> Any:
    from pyarrow import parquet

    table = parquet.read_table(path)
    check_names(path, table.column_names)
    return table


def _index(table: Any) -> set[str]:
    """The columns of a pandas index, which gives the class away if the frame was sorted by class.

    In a CSV file it has no name, or the one that pandas gives it on reading such a file.
    """
    names = {name for name in table.column_names if re.fullmatch(r"__index_level_\d+__|(Unnamed: \d+)?", name)}
    try:
        listed = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return names | {name for name in listed if isinstance(name, str)}  # a RangeIndex is a dictionary
    except (ValueError, KeyError, TypeError, RecursionError):
        return names


def check_names(path: Path, names: list[str]) -> None:
    if not names:
        raise UserError(f"{path} is empty: its first line must name the columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{path} has more than one column named {twice[0]!r}: rename one")


def _column(cells: Any, as_written: bool) -> Column | None:
    """A column of an arrow table; None if it is neither numbers nor texts.

    Texts that are stored as a category stay texts, even if they look like numbers.
    """
    from pyarrow import ArrowException, compute, float64, types

    category = types.is_dictionary(cells.type)
    kind = cells.type.value_type if category else cells.type
    if types.is_decimal(kind):
        cells = cells.cast(float64())
    if not (types.is_string(kind) or types.is_large_string(kind)):
        # A date would become a Python object and pass for a text.
        allowed = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
        return column(np.asarray(cells.to_numpy())) if allowed else None
    cells = compute.utf8_trim_whitespace(cells.cast(kind))
    if not as_written:
        missing = compute.is_in(cells, value_set=_missing(kind))
        cells = compute.if_else(missing, None, cells)
        if cells.null_count == len(cells):
            return np.full(len(cells), np.nan)
        if not category:
            try:
                return np.asarray(cells.cast(float64()).to_numpy(), dtype=np.float64)
            except ArrowException:
                pass
    return np.asarray(compute.fill_null(cells, "").to_numpy(), dtype=object)


def _missing(kind: Any) -> Any:
    from pyarrow import array

    return array(MISSING, type=kind)
