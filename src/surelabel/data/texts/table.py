"""Tables with a column of texts: rows of a .csv or .parquet file, or lines of a .jsonl file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import JSON_LINES, TEXT_COLUMN
from surelabel.data.source import DataSet
from surelabel.data.tables.columns import Columns, as_texts, numeric
from surelabel.data.tables.encoding import identifies
from surelabel.data.tables.files import read_table
from surelabel.data.tables.rows import SPLIT_COLUMN, may_be_label, take_known_labels, take_labels
from surelabel.data.texts.jsonl import read_jsonl
from surelabel.data.texts.source import TextSource
from surelabel.utils.errors import UserError, suggestion


def load(
    path: str | Path,
    text_column: str = TEXT_COLUMN,
    label_column: str | None = None,
    group_column: str | None = None,
    label_files: Sequence[str] = (),
) -> DataSet:
    """A data set out of a table, of which only the texts are learnt from; `label_files` have labels of more rows."""
    path = Path(path)
    columns = _columns(path, text_column, label_column, group_column)
    try:
        texts = _take_texts(columns, text_column)
        rows = take_labels(columns, label_column, group_column, label_files)
        train, test = (
            TextSource(texts[part], rows.labels[part], rows.classes, part.tolist()) if len(part) else None
            for part in rows.parts
        )
        assert train is not None  # `take_labels` sees to it
        place = rows.parts[0]
        train.notes = (*train.notes, *rows.notes)
        train.groups, train.suggested = None if rows.groups is None else rows.groups[place], rows.suggested[place]
        train.ids = next((as_texts(own)[place] for own in columns.values() if identifies(own)), None)
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error
    return DataSet(path.stem, train, test)


def load_unlabelled(path: str | Path, text_column: str, classes: Sequence[str]) -> TextSource:
    """The texts of all rows."""
    path = Path(path)
    try:
        return TextSource(_take_texts(_columns(path, text_column), text_column), None, classes)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def load_labelled(
    path: str | Path, text_column: str, classes: Sequence[str], label_column: str | None = None
) -> TextSource:
    """The texts of the rows with their labels; of its test rows if it has any."""
    path = Path(path)
    columns = _columns(path, text_column, label_column)
    try:
        texts = _take_texts(columns, text_column)
        rows, labels = take_known_labels(columns, label_column, classes)
        return TextSource(texts[rows], labels, classes, rows.tolist())
    except UserError as error:
        raise type(error)(f"{path}: {error}") from error


def _columns(path: Path, text: str, label: str | None = None, group: str | None = None) -> Columns:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if path.suffix.lower() == JSON_LINES:
        return read_jsonl(path, text)
    return read_table(path, lambda name: name in (text, group, SPLIT_COLUMN) or may_be_label(name, label)).columns


def _take_texts(columns: Columns, text_column: str) -> NDArray[np.object_]:
    """The column of texts, which is taken out."""
    if text_column not in columns:
        raise UserError(f"text_column: there is no column {text_column!r} of texts.{suggestion(text_column, columns)}")
    texts = columns.pop(text_column)
    if numeric(texts):
        raise UserError(f"text_column: column {text_column!r} holds numbers, not texts")
    if not any(text.strip() for text in texts):
        raise UserError(f"text_column: column {text_column!r} is empty")
    return np.asarray(texts, dtype=object)
