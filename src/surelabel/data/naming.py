"""What somebody calls the samples of their own data."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surelabel.data.images.folder import FolderSource
from surelabel.data.part import Subset
from surelabel.data.source import Source
from surelabel.data.tables.source import TableSource


def called(source: Source, index: NDArray[np.int64]) -> Sequence[str | int]:
    """The files of these samples, or their numbers in the file that they were read from, which need not be the pool's.

    A table's test rows and samples held out are left out of the pool: behind them the two numbers differ.
    """
    if isinstance(source, Subset):
        return called(source.whole, source.index[index])
    if (whole := getattr(source, "whole", None)) is not None:
        return called(whole, index)
    if isinstance(source, FolderSource):
        return [source.paths[place] for place in index.tolist()]
    numbers: list[int] = (source.numbers[index] if isinstance(source, TableSource) else index).tolist()
    return numbers
