"""Labels by row: a table names samples of an array by their number, from 0, and their classes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from surelabel.data.images.labels_csv import is_suggested, read_rows
from surelabel.data.source import UNLABELLED, Source
from surelabel.data.tables.columns import MISSING
from surelabel.utils.errors import UserError

ROW_COLUMNS = ("sample", "row")


def label_rows(source: Source, paths: Iterable[Path], declared: bool = False) -> None:
    """Give the samples of a source the classes that tables name, of which a later one counts.

    Classes may be new, unless they were `declared`.
    """
    names = np.array([*source.classes, ""], dtype=object)[source.labels]
    suggested = np.zeros(len(source), dtype=np.bool_)
    for path in paths:
        given = read_row_labels(path, len(source))
        for row, name in given.items():
            if declared and name not in source.classes:
                raise UserError(f"{path}: row {row} has the class {name!r}, not one of {', '.join(source.classes)}")
            names[row] = name
        suggested[list(given)] = is_suggested(path)
    classes = {*source.classes, *names} - {""}
    if not declared:
        numbers = all(name.isdecimal() for name in classes)
        source.classes = tuple(sorted(classes, key=int) if numbers else sorted(classes))
    number = {"": UNLABELLED} | {name: place for place, name in enumerate(source.classes)}
    source.labels = np.array([number[name] for name in names], dtype=np.int64)
    source.suggested = suggested


def read_row_labels(path: Path, rows: int) -> dict[int, str]:
    """The class of each row that a table names."""
    lines: dict[int, int] = {}
    found = {}
    for line, written, label in read_rows(path, ROW_COLUMNS):
        if not written.isdecimal() or int(written) >= rows:
            raise UserError(f"{path}, line {line}: there is no row {written!r}: they are numbered from 0 to {rows - 1}")
        row = int(written)
        if row in lines:
            raise UserError(f"{path}, lines {lines[row]} and {line}: row {row} is listed twice; keep one line")
        if label in MISSING[1:]:
            raise UserError(
                f"{path}, line {line}: {label} may be a class or mean unlabelled: leave the class of unlabelled rows "
                "empty, or rename the class"
            )
        lines[row] = line
        if label:
            found[row] = label
    if not found:
        raise UserError(f"{path} names no class of any row: write the class beside some of them")
    return found
