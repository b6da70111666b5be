"""Labels by row: a table names samples of an array by their ids, else by their number, from 0, and their classes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.label_rows import named_ids, named_rows
from surelabel.data.source import UNLABELLED, Source
from surelabel.utils.errors import UserError


def give_labels(
    source: Source, paths: Sequence[str | Path], declared: bool = False, id_column: str | None = None
) -> None:
    """Give the samples of a source the classes that tables name, of which a later one counts.

    Classes may be new, unless they were `declared`. `id_column` is that of tables which name samples by their ids.
    """
    ids = source.row_ids if isinstance(source, EmbeddingSource) else None
    if ids is None and id_column is not None:
        raise UserError(f"id_column {id_column!r}: the samples have no ids, only numbers from 0: leave it out")
    if not paths:
        return
    names = np.array([*source.classes, ""], dtype=object)[source.labels]
    suggested = np.zeros(len(source), dtype=np.bool_)
    for path in map(Path, paths):
        given = named_rows(path, len(source)) if ids is None else named_ids(path, ids.tolist(), id_column)
        source.notes = (*source.notes, *given.notes)
        for number, row in given.items():
            if declared and row.label not in source.classes:
                known = ", ".join(source.classes)
                raise UserError(f"{path}, line {row.line}: the class {row.label!r} is not one of {known}")
            names[number], suggested[number] = row.label, row.suggested
    classes = {*source.classes, *names} - {""}
    if not declared:
        numbers = all(name.isdecimal() for name in classes)
        source.classes = tuple(sorted(classes, key=int) if numbers else sorted(classes))
    numbers_of = {"": UNLABELLED} | {name: place for place, name in enumerate(source.classes)}
    source.labels = np.array([numbers_of[name] for name in names], dtype=np.int64)
    source.suggested = suggested
