"""Embeddings in a list column of a .parquet file, with ids and labels in other columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.label_rows import ID_COLUMNS
from surelabel.data.tables.blocks import blocks, count_rows
from surelabel.data.tables.columns import as_texts
from surelabel.data.tables.files import columns_of, reading
from surelabel.data.tables.rows import LABEL_COLUMNS
from surelabel.utils.errors import UserError, optional_import, suggestion
from surelabel.utils.words import some

BLOCK = 2**14  # rows read at a time


@dataclass(frozen=True)
class EmbeddingColumns:
    """The columns of a file that are read; `ids` and `labels` are None where there are none."""

    rows: str
    ids: str | None
    labels: str | None
    others: tuple[str, ...] = ()  # that are not read

    @property
    def listed(self) -> list[str]:
        return [name for name in (self.rows, self.ids, self.labels) if name is not None]


@dataclass(frozen=True)
class Block:
    """Some rows [n, d] of a file, from the row `first` on, with their ids and labels [n], where it has some."""

    first: int
    rows: NDArray[Any]
    ids: NDArray[np.object_] | None
    labels: NDArray[np.object_] | None


def list_columns(path: Path) -> list[str]:
    """The columns that hold lists of floats."""
    with optional_import("tables", f"the table {path}"):
        from pyarrow import parquet, types
    with reading(path):
        schema = parquet.read_schema(path)
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return [
        field.name
        for field in schema
        if any(one(field.type) for one in lists) and types.is_floating(field.type.value_type)
    ]


def find_columns(
    path: Path, rows: str | None = None, ids: str | None = None, labels: str | None = None
) -> EmbeddingColumns:
    """The columns of these names; without a name, the only list column, and those that are usually so called."""
    from pyarrow import parquet

    found = list_columns(path)
    names = parquet.read_schema(path).names
    for option, name in (("id_column", ids), ("label_column", labels)):
        if name is not None and name not in names:
            raise UserError(f"{path}: {option}: there is no column {name!r}.{suggestion(name, names)}")
    if rows is not None and rows not in found:
        raise UserError(
            f"{path}: embedding_column: {rows!r} is no column of lists of floats; these are: {some(found) or 'none'}"
        )
    if rows is None and len(found) != 1:
        raise UserError(
            f"{path}: {'several columns hold' if found else 'no column holds'} lists of floats ({some(found)}): name "
            "the one with the embeddings by embedding_column"
        )
    ids = ids or min((name for name in names if name.lower() in ID_COLUMNS), key=_place_of_id, default=None)
    chosen = EmbeddingColumns(rows or found[0], ids, labels or _label_column(path, names))
    return replace(chosen, others=tuple(name for name in names if name not in chosen.listed))


def _place_of_id(name: str) -> int:
    return ID_COLUMNS.index(name.lower())


def _label_column(path: Path, names: list[str]) -> str | None:
    found = [name for name in names if name.lower() in LABEL_COLUMNS]
    if len(found) > 1:
        raise UserError(f"{path}: several columns may hold the labels ({some(found)}): name one by label_column")
    return found[0] if found else None


def read_blocks(path: Path, columns: EmbeddingColumns, rows: range | None = None, size: int = BLOCK) -> Iterator[Block]:
    """These rows of a file, or all, block by block."""
    first, width = rows.start if rows is not None else 0, None
    for table in blocks(path, rows, size, columns.listed):
        found = _matrix(path, table[columns.rows].combine_chunks(), first, columns.rows)
        width = width or found.shape[1]
        if found.shape[1] != width:
            raise UserError(f"{path}: row {first} of {columns.rows!r} has {found.shape[1]} numbers, others {width}")
        others = columns_of(table.select(columns.listed[1:]), lambda _: True).columns
        texts = [None if name is None else as_texts(others[name]) for name in (columns.ids, columns.labels)]
        yield Block(first, found, *texts)
        first += len(found)


def _matrix(path: Path, cells: Any, first: int, column: str) -> NDArray[Any]:
    """Lists of one length as rows [n, d]; `first` is the number of the first of them."""
    lengths = np.asarray(cells.value_lengths().fill_null(-1))
    wrong = np.flatnonzero((lengths != lengths[0]) | (lengths <= 0))
    if wrong.size:
        row = int(wrong[0])
        what = "is empty" if lengths[row] <= 0 else f"has {lengths[row]} numbers, others {lengths[0]}"
        raise UserError(f"{path}: row {first + row} of {column!r} {what}: all rows need as many numbers")
    values: NDArray[Any] = cells.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(cells), lengths[0])


def read_whole(
    path: Path, columns: EmbeddingColumns
) -> tuple[NDArray[Any], NDArray[np.object_] | None, NDArray[np.object_] | None]:
    """All rows [N, d], in memory, with their ids and labels, where there are some."""
    held: NDArray[Any] | None = None
    found = list[Block]()
    for block in read_blocks(path, columns):
        if held is None:
            held = np.empty((count_rows(path), block.rows.shape[1]), block.rows.dtype)
        held[block.first : block.first + len(block.rows)] = block.rows
        found.append(replace(block, rows=held[:0]))
    if held is None:
        raise UserError(f"{path} has no rows")
    ids, labels = ([getattr(block, name) for block in found] for name in ("ids", "labels"))
    return held, None if ids[0] is None else np.concatenate(ids), None if labels[0] is None else np.concatenate(labels)
