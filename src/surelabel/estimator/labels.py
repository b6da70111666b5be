"""Read y: an array of labels, and which samples are unlabelled."""

from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from surelabel.data.tables.frames import is_frame

NUMBERS = (int, float, np.number, np.bool_)  # and bool, an int


def unlabelled_in(y: NDArray[Any], marker: object) -> NDArray[np.bool_]:
    """Which of y [n] are missing or equal the marker."""
    if y.dtype.kind in "OU":
        # Among texts, numpy converts -1 to "-1" and NaN to "nan".
        texts = {str(marker), "nan"} if y.dtype.kind == "U" else {str(marker)}
        return np.array([_is(value, marker) or str(value) in texts for value in y.tolist()], dtype=np.bool_)
    gaps = np.isnan(y) if y.dtype.kind in "fmM" else np.zeros(y.shape, dtype=np.bool_)
    return gaps if _is_nothing(marker) else gaps | (y == marker)


def _is(value: object, marker: object) -> bool:
    same = isinstance(value, NUMBERS) and isinstance(marker, NUMBERS) and value == marker
    return _is_nothing(value) or bool(same)  # -1.0 is -1 too


def _is_nothing(value: object) -> bool:
    if isinstance(value, float | np.floating):
        return isnan(value)
    # pandas' NA by name, so that pandas need not be installed.
    return value is None or (isinstance(value, str) and value == "") or type(value).__name__ == "NAType"


def column_of(y: Any, warn: bool = False) -> NDArray[Any]:
    """y as an array [n]; pandas' types and numpy's StringDType become objects.

    scikit-learn would convert pandas' integers and booleans with gaps to floats, and does not know StringDType.
    """
    if isinstance(y, np.ma.MaskedArray):
        y = np.array(y.tolist(), dtype=object)  # None if masked
    if is_frame(y) and len(y.columns) == 1:
        y = y[y.columns[0]]
    if hasattr(y, "dtype") and not (isinstance(y.dtype, np.dtype) and y.dtype.kind != "T"):
        y = np.asarray(y, dtype=object)
    column: NDArray[Any] = column_or_1d(y, warn=warn)
    return column


def without_gaps(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels without missing values; numbers and booleans no longer as objects."""
    if labels.dtype == object and all(isinstance(label, NUMBERS) for label in labels):
        return np.array(labels.tolist())
    return labels
