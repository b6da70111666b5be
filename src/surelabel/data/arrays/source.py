"""Samples and labels in arrays, held in memory or mapped from a file, and checked once on the way in."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.data.labels import number_labels
from surelabel.data.source import UNLABELLED, DataSet, Images, Source
from surelabel.data.statistics import chunks
from surelabel.utils.errors import UserError

Layout = Literal["NCHW", "NHWC"]
CHANNELS = (1, 3)


class SampleSource(Source):
    """A source over an array of samples of any shape, which is referred to, not copied.

    Samples are [N, columns], [N, channels, time], [N, channels, height, width], ..., in uint8 (0 to 255) or floats
    (finite, read as float32). Each channel is normalised by itself. Labels: see `number_labels`; NaN is unlabelled too.
    """

    number_kinds: ClassVar[str] = "f"  # of numpy's, that are read beside uint8
    first = 0  # the number of the first sample, where these are a piece of a file

    def __init__(
        self, samples: NDArray[Any], labels: ArrayLike | None = None, classes: Sequence[str] | None = None
    ) -> None:
        self._images = np.asarray(samples)
        check_readable(self._images, self.number_kinds)
        self.labels, self.classes, self.notes = number_labels(_without_gaps(labels), classes, len(self._images))
        self.shape = self._images.shape[1:]
        if self._images.dtype != np.uint8:
            self._check_finite()

    def __len__(self) -> int:
        return len(self._images)

    def samples(self, index: NDArray[np.int64]) -> Images:
        chosen = self._images[index]
        if chosen.dtype == np.uint8:
            return np.ascontiguousarray(chosen)
        return np.ascontiguousarray(chosen, dtype=np.float32)

    def _check_finite(self) -> None:
        for part in chunks(range(len(self)), self.shape):
            index = np.arange(part.start, part.stop)
            # A float64 beyond float32's range becomes infinite here, as it would for the network.
            with np.errstate(over="ignore"):
                finite = np.isfinite(self.samples(index)).reshape(len(index), -1).all(axis=1)
            if not finite.all():
                number = self.first + index[np.argmin(finite)]
                raise UserError(f"sample {number} holds NaN, infinity or a number beyond float32: mend or remove it")


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
            raise UserError(f"images must be [N, H, W], [N, C, H, W] or [N, H, W, C], but have shape {images.shape}")
        check_readable(images)
        super().__init__(_channels_first(images, layout), labels, classes)


def user_data_set(name: str, train: Source, test: Source | None) -> DataSet:
    """A data set of the user's own, normalised by its training samples; train and test must agree."""
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
    return DataSet(name, train, test)


def _without_gaps(labels: ArrayLike | None) -> ArrayLike | None:
    """Whole numbers with gaps are floats with NaN, in pandas and elsewhere."""
    if labels is None or np.asarray(labels).dtype.kind != "f":
        return labels
    return np.where(np.isnan(labels), UNLABELLED, labels)


def check_readable(images: NDArray[Any], kinds: str = "f") -> None:
    """Raise unless there are samples, of uint8 or of these kinds of numbers."""
    if 0 in images.shape:
        raise UserError(f"there are no samples, so that the pool would be empty: the array has shape {images.shape}")
    if images.ndim < 2:
        raise UserError(f"samples must have at least one axis beside their number, but the array is {images.shape}")
    if images.dtype != np.uint8 and images.dtype.kind not in kinds:
        raise UserError(f"samples must be uint8 or floats, not {images.dtype}: convert them, e.g. .astype(np.uint8)")


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
