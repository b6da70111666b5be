"""Some samples of a source, as a source."""

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import Images, Source, Streamed, expect


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


class StreamedPart(Part):
    """Some samples of a source that reads ahead."""

    def __init__(self, whole: Source, index: NDArray[np.int64], run: int) -> None:
        super().__init__(whole, index)
        self.run = run

    def expect(self, index: NDArray[np.int64]) -> None:
        expect(self.whole, self.index[index])


def part_of(whole: Source, index: NDArray[np.int64]) -> Part:
    """These samples of a source, which reads ahead if the whole does."""
    return StreamedPart(whole, index, whole.run) if isinstance(whole, Streamed) else Part(whole, index)
