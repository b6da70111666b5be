"""Labels by row: a table names samples of an array by their number, from 0, and their classes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from surelabel.data.label_rows import named_rows
from surelabel.data.source import UNLABELLED, Source
from surelabel.utils.errors import UserError


def give_labels(source: Source, paths: Iterable[Path], declared: bool = False) -> None:
    """Give the samples of a source the classes that tables name, of which a later one counts.

    Classes may be new, unless they were `declared`.
    """
    names = np.array([*source.classes, ""], dtype=object)[source.labels]
    suggested = np.zeros(len(source), dtype=np.bool_)
    for path in paths:
        given = named_rows(path, len(source))
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
