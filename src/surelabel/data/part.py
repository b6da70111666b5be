"""Some samples of a source, as a source."""

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import Images, Source


class Part:
    """Some samples of a source, in this order."""

    def __init__(self, whole: Source, index: NDArray[np.int64]) -> None:
        self.whole, self.index = whole, index
        self.labels = whole.labels[index]
        self.classes, self.shape = whole.classes, whole.shape

    def __len__(self) -> int:
        return len(self.index)

    def images(self, index: NDArray[np.int64]) -> Images:
        return self.whole.images(self.index[index])
