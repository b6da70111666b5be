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
    """A source over rows of numbers [N, d] of any type, read as float32; floats of that type stay where they are."""

    kind: Kind = "features"

    def __init__(
        self, rows: NDArray[Any], labels: ArrayLike | None = None, classes: Sequence[str] | None = None
    ) -> None:
        rows = np.asarray(rows)
        if rows.dtype.kind not in "fiu":
            raise UserError(f"embeddings must be numbers, not {rows.dtype}")
        if rows.shape[1] > MOST:
            raise UserError(
                f"embeddings have at most {MOST} numbers, and these have {rows.shape[1]}: if they are pictures, "
                "store them as [N, H, W] or [N, H, W, 3]; else take fewer, such as their principal components"
            )
        with np.errstate(over="ignore"):  # to infinity, which is refused
            self.features = np.asarray(rows, dtype=np.float32)
        super().__init__(self.features, labels, classes)
        self.description = f"embeddings of {rows.shape[1]:,} numbers"
