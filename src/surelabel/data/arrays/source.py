"""Samples and labels in arrays, held in memory or mapped from a file, and checked once on the way in."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.data.labels import number_labels
from surelabel.data.source import UNLABELLED, DataSet, Images, Source
from surelabel.utils.errors import UserError

Layout = Literal["NCHW", "NHWC"]
CHANNELS = (1, 3)
# Large enough to be quick, small enough that a memory-mapped array never has to fit in memory.
CHUNK_BYTES = 2**24


class SampleSource:
    """A source over an array of samples of any shape, which is referred to, not copied.

    Samples are [N, columns], [N, channels, time], [N, channels, height, width], ..., in uint8 (0 to 255) or floats
    (finite, read as float32). Each channel is normalised by itself. Labels: see `number_labels`; NaN is unlabelled too.
    """

    def __init__(
        self, samples: NDArray[Any], labels: ArrayLike | None = None, classes: Sequence[str] | None = None
    ) -> None:
        self._images = _readable(np.asarray(samples))
        self._labels, self._classes = number_labels(_without_gaps(labels), classes, len(self._images))
        if self._images.dtype != np.uint8:
            self._check_finite()

    @property
    def classes(self) -> tuple[str, ...]:
        return self._classes

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._labels

    @property
    def shape(self) -> tuple[int, ...]:
        return self._images.shape[1:]

    def __len__(self) -> int:
        return len(self._images)

    def samples(self, index: NDArray[np.int64]) -> Images:
        chosen = self._images[index]
        if chosen.dtype == np.uint8:
            return np.ascontiguousarray(chosen)
        return np.ascontiguousarray(chosen, dtype=np.float32)

    def _check_finite(self) -> None:
        for part in _chunks(range(len(self)), self.shape):
            index = np.arange(part.start, part.stop)
            # A float64 beyond float32's range becomes infinite here, as it would for the network.
            with np.errstate(over="ignore"):
                finite = np.isfinite(self.samples(index)).reshape(len(index), -1).all(axis=1)
            if not finite.all():
                first = index[np.argmin(finite)]
                raise UserError(f"sample {first} holds NaN, infinity or a number beyond float32: mend or remove it")


class ArraySource(SampleSource):
    """A source over an array of images: [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1 or 3.

    `layout` ("NCHW" or "NHWC") is needed only where both readings are possible.
    """

    def __init__(
        self,
        images: NDArray[Any],
        labels: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        layout: Layout | None = None,
    ) -> None:
        images = np.asarray(images)
        if images.ndim not in (3, 4):
            tables = ". A table of numbers is read from a .csv or .parquet file, or in Python by SureLabelClassifier"
            raise UserError(
                f"images must be [N, H, W], [N, C, H, W] or [N, H, W, C], but have shape {images.shape}"
                f"{tables if images.ndim == 2 else ''}"
            )
        super().__init__(_channels_first(_readable(images), layout), labels, classes)


def channel_statistics(source: Source, most: int = 10_000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each channel, over at most `most` samples evenly spread over the source.

    A constant channel gets the deviation 1, so that dividing by it is harmless.
    """
    used = np.unique(np.linspace(0, len(source) - 1, min(most, len(source))).astype(np.int64))
    # Sums of differences from one pixel lose no digits to a large mean, and are exactly 0 for a constant channel.
    within = len(source.shape) - 1  # axes inside a channel: none in a table
    origin = source.samples(used[:1])[(slice(None), slice(None), *[slice(1)] * within)].astype(np.float64)
    axes = "nc" + "hwdefg"[:within]
    total, squares = np.zeros(source.shape[0]), np.zeros(source.shape[0])
    for part in _chunks(range(len(used)), source.shape):
        difference = source.samples(used[part.start : part.stop]) - origin
        total += difference.sum(axis=(0, *range(2, difference.ndim)))
        squares += np.einsum(f"{axes},{axes}->c", difference, difference)
    pixels = len(used) * int(np.prod(source.shape[1:]))
    mean = total / pixels
    deviation = np.sqrt(np.maximum(squares / pixels - mean**2, 0.0))
    deviation[deviation == 0] = 1.0
    return tuple((origin.reshape(-1) + mean).tolist()), tuple(deviation.tolist())


def user_data_set(name: str, train: Source, test: Source | None, most: int = 10_000) -> DataSet:
    """A data set of the user's own, normalised by up to `most` training samples; train and test must agree."""
    if test is not None:
        if train.shape != test.shape:
            raise UserError(
                f"training samples have the shape {train.shape} but test samples {test.shape} (of an image: channels, "
                "height, width)"
            )
        first = np.zeros(1, dtype=np.int64)
        kinds = train.samples(first).dtype, test.samples(first).dtype
        if kinds[0] != kinds[1]:
            raise UserError(f"training samples are {kinds[0]} but test samples {kinds[1]}: store both in one type")
        if (test.labels == UNLABELLED).any():
            index = int(np.argmax(test.labels == UNLABELLED))
            raise UserError(f"test sample {index} has no label: label it, or move it to the training samples")
    offset, scale = channel_statistics(train, most)
    return DataSet(name, train, test, offset, scale)


def _without_gaps(labels: ArrayLike | None) -> ArrayLike | None:
    """Whole numbers with gaps are floats with NaN, in pandas and elsewhere."""
    if labels is None or np.asarray(labels).dtype.kind != "f":
        return labels
    return np.where(np.isnan(labels), UNLABELLED, labels)


def _readable(images: NDArray[Any]) -> NDArray[Any]:
    if 0 in images.shape:
        raise UserError(f"there are no samples, so that the pool would be empty: the array has shape {images.shape}")
    if images.ndim < 2:
        raise UserError(f"samples must have at least one axis beside their number, but the array is {images.shape}")
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise UserError(f"samples must be uint8 or floats, not {images.dtype}: convert them, e.g. .astype(np.uint8)")
    return images


def _channels_first(images: NDArray[Any], layout: Layout | None) -> NDArray[Any]:
    """A view [N, C, H, W]."""
    if images.ndim == 3:
        return images[:, None]
    places = {"NCHW": 1, "NHWC": 3}
    fitting = [key for key, axis in places.items() if images.shape[axis] in CHANNELS and layout in (None, key)]
    if not fitting:
        raise UserError(f"images of shape {images.shape} have neither 1 nor 3 channels: keep or make 1 or 3 of them")
    if len(fitting) > 1:
        raise UserError(
            f"images of shape {images.shape} may be [N, C, H, W] or [N, H, W, C]: say layout='NCHW' or layout='NHWC', "
            "or store one-channel images as [N, H, W]"
        )
    return np.moveaxis(images, places[fitting[0]], 1)


def _chunks(whole: range, shape: tuple[int, ...]) -> Iterator[range]:
    size = max(1, CHUNK_BYTES // (8 * int(np.prod(shape))))
    for start in range(0, len(whole), size):
        yield whole[start : start + size]
