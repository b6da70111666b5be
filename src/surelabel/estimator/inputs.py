"""Read X, in training and prediction alike."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.source import DataSet, Source
from surelabel.data.tables.columns import Columns
from surelabel.data.tables.encoding import Encoding, check_numbers, learn
from surelabel.data.tables.frames import categories, from_frame, from_numbers, is_frame, to_column
from surelabel.data.tables.source import TableSource, table_data
from surelabel.data.texts.source import TextSource
from surelabel.utils.errors import UserError

MOST_NOTES = 10  # in a warning, as hundreds of columns may be constant where images are given as a table
BROKEN_NUMBERS = (
    "convert it to numbers, with NaN for missing ones, by pandas.to_numeric for example; if these are categories, add "
    "the column to `categorical`, or leave it out"
)


@dataclass(frozen=True)
class TableInput:
    """Rows: an array [n, d] of numbers, or a data frame, which may have columns of texts."""

    encoding: Encoding
    names: tuple[str, ...]  # of all columns in order, also those that are left out
    trained_on_frame: bool

    @classmethod
    def learn(cls, X: Any, categorical: Sequence[str | int]) -> "TableInput":
        columns = from_frame(X) if is_frame(X) else from_numbers(X)
        names = [name if isinstance(name, str) else list(columns)[name] for name in categorical]
        check_numbers(columns, {*names, *(categories(X) if is_frame(X) else ())}, BROKEN_NUMBERS)
        encoding, notes = learn(columns, names)
        if notes:
            more = f"; and {len(notes) - MOST_NOTES} more such columns" if len(notes) > MOST_NOTES else ""
            # stacklevel: the line that calls the estimator's fit.
            warnings.warn("; ".join(notes[:MOST_NOTES]) + more, UserWarning, stacklevel=4)
        return cls(encoding, tuple(columns), is_frame(X))

    def source(self, X: Any, labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> TableSource:
        return TableSource(self.encoding.encode(self._columns(X)), labels, classes, self.encoding)

    def _columns(self, X: Any) -> Columns:
        """The columns of X by their names in training; by position if X or the training data have no names."""
        if is_frame(X):
            columns = from_frame(X)
            return columns if self.trained_on_frame else dict(zip(self.names, columns.values(), strict=True))
        if X.ndim != 2:
            raise UserError(f"X has the shape {X.shape}, but the model was trained on a table: give rows [n, d]")
        if not self.trained_on_frame:
            return from_numbers(X)
        return {name: to_column(name, values) for name, values in zip(self.names, X.T, strict=True)}

    def data(self, X: Any, labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return table_data("X", self.source(X, labels, classes))


@dataclass(frozen=True)
class EmbeddingInput:
    """Rows [n, d] of numbers that are directions of one space."""

    def source(self, X: Any, labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> Source:
        return EmbeddingSource(X, labels, classes)

    def data(self, X: Any, labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return user_data_set("X", self.source(X, labels, classes), None)


@dataclass(frozen=True)
class TextInput:
    """Texts [n]: a list, an array or a column of a data frame."""

    def source(self, X: list[str], labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> Source:
        return TextSource(X, labels, classes)

    def data(self, X: list[str], labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return DataSet("X", self.source(X, labels, classes))


@dataclass(frozen=True)
class ImageInput:
    """Images [n, h, w] or [n, h, w, c] with c = 1 or 3, as uint8 or other numbers.

    The views need uint8, so other numbers are scaled: their range in training becomes 0 to 255.
    """

    shape: tuple[int, ...]
    seen: tuple[float, float] | None  # the range in training; None for uint8

    @classmethod
    def learn(cls, X: NDArray[Any]) -> "ImageInput":
        if X.dtype == np.uint8:
            return cls(X.shape[1:], None)
        if X.min() == X.max():
            raise UserError(f"every pixel of every image is {X.min():g}: give images that differ")
        return cls(X.shape[1:], (float(X.min()), float(X.max())))

    def source(self, X: NDArray[Any], labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> Source:
        if X.shape[1:] != self.shape:
            raise UserError(f"X has images of shape {X.shape[1:]}, but the model was trained on {self.shape}")
        if (X.dtype == np.uint8) != (self.seen is None):
            trained = "uint8" if self.seen is None else "other numbers"
            raise UserError(f"X has the dtype {X.dtype}, but the model was trained on {trained}: convert X")
        if self.seen is not None:
            low, high = self.seen
            X = np.clip((X - low) * (255 / (high - low)), 0, 255).round()
        return ArraySource(X.astype(np.uint8), labels, classes, None if X.ndim == 3 else "NHWC")

    def data(self, X: NDArray[Any], labels: NDArray[np.int64], classes: Sequence[str]) -> DataSet:
        return user_data_set("X", self.source(X, labels, classes), None)
