"""Labels of a table's rows that stand in other files, which name the rows by their numbers."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.data.class_names import class_names
from surelabel.data.label_rows import named_rows
from surelabel.data.tables.columns import Column, as_texts
from surelabel.utils.errors import UserError


def with_labels(column: Column, files: Sequence[str]) -> tuple[NDArray[np.object_], NDArray[np.bool_], tuple[str, ...]]:
    """The class of each row [N], empty if unknown, by a table's own column and by `files`; and which were suggested.

    With notes on the names of the classes.
    """
    given = [(file, row, found) for file in files for row, found in named_rows(Path(file), len(column)).items()]
    added = np.array([found.written for _, _, found in given], dtype=object)
    classes, notes = named_classes(np.concatenate([as_texts(column), added]))  # together, as a class has one name
    texts, suggested = classes[: len(column)].copy(), np.zeros(len(column), dtype=np.bool_)
    for (file, row, found), name in zip(given, classes[len(column) :], strict=True):
        if texts[row] not in ("", name):
            before = f"already labelled {texts[row]!r}"
            raise UserError(f"{file}, line {found.line}: row {row} is {name!r} here, and {before}: correct one")
        texts[row], suggested[row] = name, found.suggested
    return texts, suggested, notes


def named_classes(values: Column) -> tuple[NDArray[np.object_], tuple[str, ...]]:
    """The classes in a label column, empty if unknown, and notes on their names.

    Whole numbers with gaps, which pandas saves as 0.0 and 1.0, are 0 and 1 again.
    """
    texts = as_texts(values)
    names = class_names(texts)
    classes = np.array([names.of[text] for text in texts], dtype=object)
    if all(re.fullmatch(r"(-?\d+(\.0+)?)?", name) for name in names.of.values()):
        classes = np.array([name.partition(".")[0] for name in classes], dtype=object)
    return classes, names.notes
