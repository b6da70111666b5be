"""What the estimator is given as X, read in the same way when it is fitted and when it predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays import ArraySource, own_data_set
from surelabel.data.source import DataSet, Source
from surelabel.data.table import TableSource, table_data
from surelabel.data.table_columns import Columns, as_texts, column
from surelabel.data.table_encoding import Encoding, learn
from surelabel.errors import UserError


@dataclass(frozen=True)
class TableInput:
    """Rows: an array [n, d] of numbers, or a data frame, whose columns may also be texts."""

    encoding: Encoding

    @classmethod
    def learn(cls, X: Any, categorical: Sequence[str | int]) -> "TableInput":
        columns = _columns(X)
        names = [name if isinstance(name, str) else list(columns)[name] for name in categorical]
        return cls(learn(columns, names)[0])

    def source(self, X: Any, labels: NDArray[np.int64] | None = None, classes: Sequence[str] = ()) -> TableSource:
        return TableSource(_columns(X), labels, classes, self.encoding)

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
        return own_data_set("X", self.source(X, labels, classes), None)


def is_frame(X: Any) -> bool:
    """Whether this is a data frame, as of pandas, which is not needed here."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def _columns(X: Any) -> Columns:
    if not is_frame(X):
        return {f"x{number}": values for number, values in enumerate(np.asarray(X, dtype=np.float64).T)}
    made: Columns = {}
    for name in X.columns:
        values = column(np.asarray(X[name]))
        if values is None:
            raise UserError(f"column {name!r} holds neither numbers nor texts: make numbers of it, or leave it out")
        # A category whose names are numbers, as of pandas, is one all the same.
        made[str(name)] = as_texts(values) if hasattr(X[name].dtype, "categories") else values
    return made
