"""Some samples of a source, as a source."""

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import Images, Source


class Part:
    """Some samples of a source."""

    def __init__(self, source: Source, rows: NDArray[np.int64]) -> None:
        self._source = source
        self._rows = rows
        self._labels = source.labels[rows]

    @property
    def classes(self) -> tuple[str, ...]:
        return self._source.classes

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._labels

    @property
    def shape(self) -> tuple[int, int, int]:
        return self._source.shape

    def __len__(self) -> int:
        return len(self._rows)

    def images(self, index: NDArray[np.int64]) -> Images:
        return self._source.images(self._rows[index])
