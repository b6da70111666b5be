"""Table columns as arrays: numbers, NaN if missing, or texts, empty if missing."""

from decimal import Decimal
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64] | NDArray[np.object_]
Columns = dict[str, Column]

# What programs write for a missing value; the first is an empty cell.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?")


def column(values: NDArray[Any]) -> Column | None:
    """An array of any type as a column; None if it holds neither numbers nor texts (dates)."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind not in "bUTO":
        return None
    cells = [None if _missing(value) else value for value in values.tolist()]
    if any(cell is not None for cell in cells) and all(cell is None or _is_number(cell) for cell in cells):
        return np.array(cells, dtype=np.float64)  # None becomes NaN
    return np.array(["" if cell is None else str(cell).strip() for cell in cells], dtype=object)


def _missing(value: Any) -> bool:
    # pandas.NA has no truth value; NaN and NaT differ from themselves.
    return (
        value is None
        or type(value).__name__ == "NAType"
        or bool(value != value)  # noqa: PLR0124
        or (isinstance(value, str) and value.strip() in MISSING)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating | Decimal) and not isinstance(value, bool)


def as_texts(values: Column) -> NDArray[np.object_]:
    """A column as texts. Integers are written without a point, so that 1 and 1.0 are the same."""
    if values.dtype == object:
        return np.asarray(values, dtype=object)
    numbers = values.tolist()
    return np.array(["" if isnan(n) else str(int(n) if n.is_integer() else n) for n in numbers], dtype=object)


def in_row(number: int) -> str:
    """The place in a file of a row counted from 0, for errors."""
    return f"in row {number + 1} below the heading"


def numeric(values: Column) -> bool:
    """Whether the column holds numbers."""
    return values.dtype != object
