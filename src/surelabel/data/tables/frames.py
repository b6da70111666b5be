"""Tables in memory: data frames, as of pandas, which is not needed here, and arrays of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.tables.columns import Column, Columns, as_texts, column
from surelabel.utils.errors import UserError


def is_frame(X: Any) -> bool:
    """Whether this is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def categories(X: Any) -> set[str]:
    """The columns of a data frame that have pandas' type for categories."""
    return {str(name) for name in X.columns if hasattr(X[name].dtype, "categories")}


def from_frame(X: Any) -> Columns:
    """The columns of a data frame."""
    made = {str(name): to_column(name, np.asarray(X[name])) for name in X.columns}
    # A category whose names are numbers is one all the same.
    return made | {name: as_texts(made[name]) for name in categories(X)}


def from_numbers(X: Any, names: Sequence[str] | None = None) -> Columns:
    """The columns of an array [n, d] of numbers, named x0, x1, ... where they have no `names`."""
    columns = np.asarray(X, dtype=np.float64).T
    if names is not None and len(names) != len(columns):
        raise UserError(f"rows of {len(columns)} columns are given, but {len(names)} were trained on")
    return dict(zip(names or [f"x{number}" for number in range(len(columns))], columns, strict=True))


def to_column(name: Any, values: NDArray[Any]) -> Column:
    """Values as a column, or an error that names it."""
    read = column(values)
    if read is None:
        raise UserError(f"column {name!r} holds neither numbers nor texts: make numbers of it, or leave it out")
    return read
