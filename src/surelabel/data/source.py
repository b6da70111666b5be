"""What a source of samples is. Everything else is built on this."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.data.statistics import Normalisation, channel_statistics, chunks
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.data.tables.encoding import Encoding
    from surelabel.models.encoders.base import Encoder

Images = NDArray[np.uint8] | NDArray[np.float32]
Kind = Literal["samples", "table", "features", "texts"]
FilesSkipped = tuple[tuple[str, str], ...]  # each file with the reason
UNLABELLED = -1
# Samples that statistics are taken of.
IN_MEMORY, FROM_DISK = 10_000, 1000


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width), or an error where the samples are no images."""
    if len(shape) != 3:
        raise UserError(f"images are needed here, and these samples have the shape {shape}")
    channels, height, width = shape
    return channels, height, width


class Source(ABC):
    """Samples of one shape (images, rows of a table, signals) with, where known, their labels.

    A source needs a length, `samples` and the first three attributes; the rest has defaults.
    """

    classes: tuple[str, ...]  # the names of the K classes, in the order of their numbers
    labels: NDArray[np.int64]  # the class of each sample [N], `UNLABELLED` where it is not known
    shape: tuple[int, ...]  # of one sample: (channels, height, width), (columns,), (channels, time), ...

    kind: Kind = "samples"
    description = ""  # of the user's own files, in words: "pictures, read at 28 × 28 pixels, grey"
    notes: tuple[str, ...] = ()  # what was noticed while reading
    skipped: FilesSkipped = ()  # what could not be read
    encoding: "Encoding | None" = None  # of a table: how its columns became numbers
    encoder: "Encoder | None" = None  # of features: what made them
    block_size = 1  # samples that are best read together, as neighbours
    groups: NDArray[np.int64] | None = None  # [N], the same for samples that belong together, such as one patient's
    # [N], whose labels were asked for because they are hard: they do not speak for the others
    suggested: NDArray[np.bool_] | None = None
    ids: NDArray[np.object_] | None = None  # [N], what the user's table calls its rows

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def samples(self, index: NDArray[np.int64]) -> Images:
        """The samples at these indices [n, *shape], uint8 in 0..255 or float32, as a new array."""

    def names(self, index: NDArray[np.int64]) -> Sequence[str | int]:
        """What the user calls these samples: their files, or their numbers in the file that was read."""
        numbers: list[int] = index.tolist()
        return numbers

    def files(self) -> Iterable[str] | None:
        """The file of each sample, in order; None where samples have none."""
        return None

    def at_random(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these labelled samples [n] were not suggested, and so speak for the others."""
        return np.ones(len(index), dtype=np.bool_) if self.suggested is None else ~self.suggested[index]

    def pictures(self, index: NDArray[np.int64]) -> Images:
        """These samples as one would look at them: pictures, where the network sees their features."""
        return self.samples(index)

    def texts(self, index: NDArray[np.int64]) -> Sequence[str] | None:
        """These samples where they are texts, which the network sees the features of; else None."""
        return None

    def content(self) -> Iterator[bytes]:
        """The bytes that all samples follow from, to tell whether they have changed."""
        batch = len(next(chunks(range(len(self)), self.shape)))
        return (samples.tobytes() for samples in in_batches(self, np.arange(len(self)), batch))

    def prefetch(self, index: NDArray[np.int64]) -> None:  # noqa: B027 - most sources are in memory
        """Begin to read these samples, which `samples` will be asked for soon."""


class Derived(Source):
    """A source made of another one, sample by sample: what it does not say, the other one does."""

    def __init__(self, whole: Source) -> None:
        self.whole = whole
        self.labels, self.classes, self.shape = whole.labels, whole.classes, whole.shape
        self.kind, self.description, self.notes = whole.kind, whole.description, whole.notes
        self.skipped, self.encoding, self.encoder = whole.skipped, whole.encoding, whole.encoder
        self.block_size, self.groups = whole.block_size, whole.groups
        self.suggested, self.ids = whole.suggested, whole.ids

    def __len__(self) -> int:
        return len(self.labels)

    def samples(self, index: NDArray[np.int64]) -> Images:
        return self.whole.samples(index)

    def names(self, index: NDArray[np.int64]) -> Sequence[str | int]:
        return self.whole.names(index)

    def files(self) -> Iterable[str] | None:
        return self.whole.files()

    def pictures(self, index: NDArray[np.int64]) -> Images:
        return self.whole.pictures(index)

    def texts(self, index: NDArray[np.int64]) -> Sequence[str] | None:
        return self.whole.texts(index)

    def prefetch(self, index: NDArray[np.int64]) -> None:
        self.whole.prefetch(index)


class Unlabelled(Derived):
    """A source that does not tell the labels of the samples at these indices."""

    def __init__(self, whole: Source, index: NDArray[np.int64]) -> None:
        super().__init__(whole)
        self.labels = whole.labels.copy()
        self.labels[index] = UNLABELLED


class Subset(Derived):
    """Some samples of a source, in this order."""

    def __init__(self, whole: Source, index: NDArray[np.int64]) -> None:
        super().__init__(whole)
        self.index = index
        self.labels = whole.labels[index]
        self.groups = None if whole.groups is None else whole.groups[index]
        self.suggested = None if whole.suggested is None else whole.suggested[index]
        self.ids = None if whole.ids is None else whole.ids[index]

    def samples(self, index: NDArray[np.int64]) -> Images:
        return self.whole.samples(self.index[index])

    def names(self, index: NDArray[np.int64]) -> Sequence[str | int]:
        return self.whole.names(self.index[index])

    def files(self) -> Iterable[str] | None:
        whole = self.whole.files()
        return None if whole is None else np.array(list(whole), dtype=object)[self.index]

    def pictures(self, index: NDArray[np.int64]) -> Images:
        return self.whole.pictures(self.index[index])

    def texts(self, index: NDArray[np.int64]) -> Sequence[str] | None:
        return self.whole.texts(self.index[index])

    def prefetch(self, index: NDArray[np.int64]) -> None:
        self.whole.prefetch(self.index[index])


def in_batches(source: Source, index: NDArray[np.int64], batch: int) -> Iterator[Images]:
    """These samples, so many at a time, the next ones being read while these are used."""
    for start in range(0, len(index), batch):
        samples = source.samples(index[start : start + batch])
        if len(following := index[start + batch : start + 2 * batch]):
            source.prefetch(following)
        yield samples


@dataclass(frozen=True)
class DataSet:
    """A training source, an optional labelled test source, and how they are normalised.

    A network sees (sample - offset) / scale, by channel (of a table: by column), in the units of what is stored.
    Without a `normalisation`, these are the statistics of the training samples, computed when first asked for.
    """

    name: str
    train: Source
    test: Source | None = None
    normalisation: Normalisation | None = None
    class_counts: tuple[int, ...] | None = None  # what a percentage of labels is taken of, where not of `train`

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def offset(self) -> tuple[float, ...]:
        return self._normalisation[0]

    @property
    def scale(self) -> tuple[float, ...]:
        return self._normalisation[1]

    @cached_property
    def _normalisation(self) -> Normalisation:
        if self.normalisation is not None:
            return self.normalisation
        return channel_statistics(self.train, FROM_DISK if self.train.block_size > 1 else IN_MEMORY)
