"""What the estimator is given as X, read in the same way when it is fitted and when it predicts."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.source import DataSet, Source
from surelabel.data.tables.columns import Columns
from surelabel.data.tables.encoding import Encoding, check_numbers, learn
from surelabel.data.tables.frames import categories, from_frame, from_numbers, is_frame, to_column
from surelabel.data.tables.source import TableSource, table_data
from surelabel.utils.errors import UserError

# A warning names at most so many columns: of images taken for tables, hundreds may be constant.
MOST_NOTES = 10
BROKEN_NUMBERS = (
    "make numbers of it, by pandas.to_numeric for example, with NaN where there is none; if they are names, name the "
    "column in `categorical`, or leave it out"
)


@dataclass(frozen=True)
class TableInput:
    """Rows: an array [n, d] of numbers, or a data frame, whose columns may also be texts."""

    encoding: Encoding
    names: tuple[str, ...]  # of all columns in order, also of those that are left out
    trained_on_frame: bool  # whether a data frame was learnt from

    @classmethod
    def learn(cls, X: Any, categorical: Sequence[str | int]) -> "TableInput":
        columns = from_frame(X) if is_frame(X) else from_numbers(X)
        names = [name if isinstance(name, str) else list(columns)[name] for name in categorical]
        check_numbers(columns, {*names, *(categories(X) if is_frame(X) else ())}, BROKEN_NUMBERS)
        encoding, notes = learn(columns, names)
        if notes:
            more = f"; and {len(notes) - MOST_NOTES} more such columns" if len(notes) > MOST_NOTES else ""
            # At the level of the line that calls the estimator's fit.
            warnings.warn("; ".join(notes[:MOST_NOTES]) + more, UserWarning, stacklevel=3)
        return cls(encoding, tuple(columns), is_frame(X))

    def source(self, X: Any, labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> TableSource:
        return TableSource(self.encoding.encode(self._columns(X)), labels, classes, self.encoding)

    def _columns(self, X: Any) -> Columns:
        """The columns of X by the names that were learnt; what has no such names has them in the same order."""
        if is_frame(X):
            columns = from_frame(X)
            return columns if self.trained_on_frame else dict(zip(self.names, columns.values(), strict=True))
        if X.ndim != 2:
            raise UserError(f"an array of shape {X.shape} is given, but a table was learnt from")
        if not self.trained_on_frame:
            return from_numbers(X)
        return {name: to_column(name, values) for name, values in zip(self.names, X.T, strict=True)}

    def data(self, X: Any, labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return table_data("X", self.source(X, labels, classes))


@dataclass(frozen=True)
class ImageInput:
    """Images [n, h, w] or [n, h, w, c] with c = 1 or 3, in bytes, or in other numbers, of which the range seen in
    training becomes 0 to 255: the views are made of operations on bytes.
    """

    shape: tuple[int, ...]
    seen: tuple[float, float] | None  # the range of other numbers

    @classmethod
    def learn(cls, X: NDArray[Any]) -> "ImageInput":
        if X.dtype == np.uint8:
            return cls(X.shape[1:], None)
        if X.min() == X.max():
            raise UserError(f"all images are {X.min():g} everywhere: there is nothing to learn from")
        return cls(X.shape[1:], (float(X.min()), float(X.max())))

    def source(self, X: NDArray[Any], labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> Source:
        if X.shape[1:] != self.shape:
            raise UserError(f"images of shape {X.shape[1:]} are given, but {self.shape} were learnt from")
        if (X.dtype == np.uint8) != (self.seen is None):
            learnt = "bytes" if self.seen is None else "other numbers"
            raise UserError(f"images in {X.dtype} are given, but {learnt} were learnt from: give the same kind")
        if self.seen is not None:
            low, high = self.seen
            X = np.clip((X - low) * (255 / (high - low)), 0, 255).round()
        return ArraySource(X.astype(np.uint8), labels, classes, None if X.ndim == 3 else "NHWC")

    def data(self, X: NDArray[Any], labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return user_data_set("X", self.source(X, labels, classes), None)
