"""Embeddings: rows of numbers that are directions of one space, such as another network's features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.data.arrays.source import SampleSource
from surelabel.data.source import Kind
from surelabel.utils.errors import UserError

MOST = 4096  # their principal components are those of a matrix of that size


class EmbeddingSource(SampleSource):
    """A source over rows of numbers [N, d] of any type, which stay where they are, and are read as float32.

    `row_ids` [N] are what the user calls the rows, each a different text; without, they have their numbers,
    from `first` on.
    """

    kind: Kind = "features"
    number_kinds = "fiu"

    def __init__(
        self,
        rows: NDArray[Any],
        labels: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        row_ids: NDArray[Any] | None = None,
        first: int = 0,
    ) -> None:
        rows = np.asarray(rows)
        check_rows(rows)
        self.row_ids = None if row_ids is None else checked_ids(row_ids, len(rows))
        self.first = first
        super().__init__(rows, labels, classes)
        self.description = f"embeddings of {rows.shape[1]:,} numbers"

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # to infinity, which is refused
            return np.ascontiguousarray(self._images[index], dtype=np.float32)

    def names(self, index: NDArray[np.int64]) -> Sequence[str | int]:
        if self.row_ids is None:
            return super().names(index + self.first)
        named: list[str | int] = self.row_ids[index].tolist()
        return named


def check_rows(rows: NDArray[Any]) -> None:
    """Raise unless these are rows [N, d] of numbers, no more of them than there may be."""
    if rows.dtype.kind not in "fiu":
        raise UserError(f"embeddings must be numbers, not {rows.dtype}")
    if rows.ndim != 2:
        raise UserError(f"embeddings must be rows [N, d], and these have the shape {rows.shape}")
    if rows.shape[1] > MOST:
        raise UserError(
            f"embeddings have at most {MOST} numbers, and these have {rows.shape[1]}: if they are pictures, "
            "store them as [N, H, W] or [N, H, W, 3]; else take fewer, such as their principal components"
        )


def checked_ids(ids: NDArray[Any], rows: int) -> NDArray[np.str_]:
    """The ids [N] as texts, one for each row and none twice."""
    if ids.shape != (rows,):
        raise UserError(f"there are {rows} rows but ids of the shape {ids.shape}: give one id for each row")
    if ids.dtype.kind not in "iuUTO" or any(not isinstance(one, str | int) for one in ids[:1].tolist()):
        raise UserError(f"ids must be texts or whole numbers, not {ids.dtype}")
    texts = ids if ids.dtype.kind == "U" else ids.astype(np.str_)
    found, first, counts = np.unique(texts, return_index=True, return_counts=True)
    if (counts > 1).any():
        name = found[np.argmax(counts > 1)]
        places = np.flatnonzero(texts == name)[:2].tolist()
        raise UserError(f"the id {str(name)!r} is that of rows {places[0]} and {places[1]}: ids must differ")
    if (empty := np.flatnonzero(found == "")).size:
        raise UserError(f"row {first[empty[0]]} has no id: give each row one, or leave the ids out")
    return texts
