"""What a data source is: a length, class names, samples by index, labels. Everything else is built on these."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError

Images = NDArray[np.uint8] | NDArray[np.float32]
UNLABELLED = -1


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width), or an error where the samples are no images."""
    if len(shape) != 3:
        raise UserError(f"images are needed here, and these samples have the shape {shape}")
    channels, height, width = shape
    return channels, height, width


class Source(Protocol):
    """Samples of one shape (images, rows of a table, signals) with, where known, their labels."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the K classes, in the order of their numbers."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of each sample [N], `UNLABELLED` where it is not known."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample: (channels, height, width) of an image, (columns,) of a table's row, (channels, time), ..."""

    def __len__(self) -> int: ...

    def samples(self, index: NDArray[np.int64]) -> Images:
        """The samples at these indices [n, *shape], uint8 in 0..255 or float32, as a new array."""


@runtime_checkable
class Prefetching(Protocol):
    """A source that reads from a disk: best in runs of so many neighbours, and told in time what comes next."""

    run: int

    def prefetch(self, index: NDArray[np.int64]) -> None:
        """Begin to read these images: `images` will be asked for the same indices soon."""


def prefetch(source: Source, *indices: NDArray[np.int64]) -> None:
    """Tell a source that can use it what will be asked for next."""
    if isinstance(source, Prefetching):
        for index in filter(len, indices):
            source.prefetch(index)


def in_batches(source: Source, index: NDArray[np.int64], batch: int) -> Iterator[Images]:
    """These images, so many at a time, the next ones being read while these are used."""
    for start in range(0, len(index), batch):
        images = source.samples(index[start : start + batch])
        prefetch(source, index[start + batch : start + 2 * batch])
        yield images


@dataclass(frozen=True)
class DataSet:
    """A training source, an optional test source with labels, and what a network and the views need to know of them.

    A network sees (sample - offset) / scale, channel by channel (of a table: column by column), in the units of what is
    stored.
    """

    name: str
    train: Source
    test: Source | None
    offset: tuple[float, ...]
    scale: tuple[float, ...]
    class_counts: tuple[int, ...] | None = None  # what a percentage of labels is taken of, where not of `train`

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes


def skipped_of(source: Source) -> tuple[tuple[str, str], ...]:
    """The files that were left out of a source, or of what it is a part of, each with the reason."""
    while (whole := getattr(source, "whole", None)) is not None:
        source = whole
    skipped: tuple[tuple[str, str], ...] = getattr(source, "skipped", ())
    return skipped
