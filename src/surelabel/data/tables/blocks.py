"""Read rows of a .csv or .parquet file block by block, so that the file need not fit in memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.tables.files import BLOCK, check_names, read_csv, reading
from surelabel.utils.errors import optional_import


def count_rows(path: Path) -> int:
    """How many rows a file has; a .csv file is read for it."""
    with _needed(path), reading(path):
        if path.suffix.lower() == ".csv":
            return sum(batch.num_rows for batch in read_csv(path, whole=False))
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            return int(file.metadata.num_rows)


def blocks(path: Path, rows: range | None, size: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Arrow tables of `size` rows each, the last one of fewer: of these rows, or all. `columns` are those of parquet.

    Of a parquet file only the row groups are read that hold them, one after the other.
    """
    with _needed(path), reading(path):
        read = read_csv(path, whole=False) if path.suffix.lower() == ".csv" else None
        skip = rows.start if rows is not None else 0
        if read is None:
            read, skip = _row_groups(path, rows, size, columns)
        yield from _of_size(read, skip, None if rows is None else len(rows), size)


def _row_groups(path: Path, rows: range | None, size: int, columns: Sequence[str] | None) -> tuple[Iterable[Any], int]:
    """The batches of the row groups that hold these rows, and how many rows before the first of these they begin."""
    from pyarrow.parquet import ParquetFile

    # What is buffered ahead would be kept until the end.
    file = ParquetFile(path, pre_buffer=False, buffer_size=BLOCK)
    check_names(path, file.schema_arrow.names)
    lengths = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    ends = np.cumsum([0, *lengths])
    wanted = range(int(ends[-1])) if rows is None else rows
    groups = [n for n in range(len(lengths)) if ends[n] < wanted.stop and ends[n + 1] > wanted.start]
    first = int(ends[groups[0]]) if groups else wanted.start
    return file.iter_batches(size, groups, None if columns is None else [*columns]), wanted.start - first


def _of_size(batches: Iterable[Any], skip: int, take: int | None, size: int) -> Iterator[Any]:
    """Tables of exactly `size` rows, out of batches of any size, after `skip` rows, and `take` rows in all."""
    from pyarrow import Table

    held: list[Any] = []
    for batch in batches:
        if take == 0:
            break
        kept = batch.slice(skip)
        skip -= batch.num_rows - kept.num_rows
        kept = kept if take is None else kept.slice(0, take)
        take = None if take is None else take - kept.num_rows
        held.append(kept)
        while sum(one.num_rows for one in held) >= size:
            table = Table.from_batches(held)
            yield table.slice(0, size)
            # Not an empty one, which would keep all that it was cut from.
            held = [one for one in table.slice(size).to_batches() if one.num_rows]
    if any(one.num_rows for one in held):
        yield Table.from_batches(held)


def _needed(path: Path) -> Any:
    return optional_import("tables", f"the table {path}")
