"""Some samples of a source, as a source."""

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import Images, Prefetching, Source, prefetch


class Subset:
    """Some samples of a source, in this order."""

    def __init__(self, whole: Source, index: NDArray[np.int64]) -> None:
        self.whole, self.index = whole, index
        self.labels = whole.labels[index]
        self.classes, self.shape = whole.classes, whole.shape

    def __len__(self) -> int:
        return len(self.index)

    def samples(self, index: NDArray[np.int64]) -> Images:
        return self.whole.samples(self.index[index])


class PrefetchingSubset(Subset):
    """Some samples of a source that reads ahead."""

    def __init__(self, whole: Source, index: NDArray[np.int64], run: int) -> None:
        super().__init__(whole, index)
        self.run = run

    def prefetch(self, index: NDArray[np.int64]) -> None:
        prefetch(self.whole, self.index[index])


def part_of(whole: Source, index: NDArray[np.int64]) -> Subset:
    """These samples of a source, which reads ahead if the whole does."""
    return PrefetchingSubset(whole, index, whole.run) if isinstance(whole, Prefetching) else Subset(whole, index)
