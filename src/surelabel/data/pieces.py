"""New samples some at a time, so that they need not fit in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.parquet import find_columns, read_blocks
from surelabel.data.open_like import Form, check_table, open_like
from surelabel.data.part import WHOLE, Part
from surelabel.data.source import Source, Subset
from surelabel.data.tables import source as tables
from surelabel.data.tables.blocks import blocks, count_rows

PICTURES, ROWS = 4096, 16_384  # in a piece, about


@dataclass(frozen=True)
class Pieces:
    """Sources that follow one another: these rows of all samples; None where their number is not known yet."""

    sources: Iterator[Source]
    rows: range | None


def open_pieces(data: str, form: Form, unit: int, data_dir: str | None = None, part: Part = WHOLE) -> Pieces:
    """What `open_like` opens, or a part of it, in pieces of whole units but for the last.

    Tables and embeddings in files are read piece by piece. Other sources hold their samples in files, or in memory.
    """
    path, size = Path(data_dir or ".", data), _whole(ROWS, unit)
    if form.encoding is None and not (form.of_rows and data.lower().endswith(".parquet")):
        return pieces_of(open_like(data, form, data_dir), unit, part)
    if form.encoding is not None:
        check_table(data, form)
    is_csv = path.suffix.lower() == ".csv"
    rows = None if is_csv and part == WHOLE else part.rows(count_rows(path), unit)
    if form.encoding is not None:
        return Pieces(_table(path, form, rows, size), rows)
    return Pieces(_embeddings(path, form, rows, size), rows)


def pieces_of(source: Source, unit: int, part: Part = WHOLE) -> Pieces:
    """The samples of a source, or a part of them."""
    rows = part.rows(len(source), unit)
    size = _whole(PICTURES if len(source.shape) == 3 else ROWS, unit)
    if len(rows) == len(source) <= size:
        return Pieces(iter([source]), rows)
    starts = range(rows.start, rows.stop, size)
    return Pieces((Subset(source, np.arange(start, min(start + size, rows.stop))) for start in starts), rows)


def _whole(rows: int, unit: int) -> int:
    return -(-rows // unit) * unit


def _table(path: Path, form: Form, rows: range | None, size: int) -> Iterator[Source]:
    assert form.encoding is not None
    first = 0 if rows is None else rows.start
    for table in blocks(path, rows, size):
        yield tables.encoded(path, table, form.encoding, form.classes, form.label_column, first)
        first += table.num_rows


def _embeddings(path: Path, form: Form, rows: range | None, size: int) -> Iterator[Source]:
    columns = find_columns(path, form.embedding_column, form.id_column)
    for block in read_blocks(path, columns, rows, size):
        yield EmbeddingSource(block.rows, None, form.classes, block.ids, block.first)
