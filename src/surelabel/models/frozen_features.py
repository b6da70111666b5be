"""Pictures as a frozen network sees them: features that are computed once, and then trained on like rows of a table."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.images.map_files import Progress
from surelabel.data.source import DataSet, Derived, Source, image_shape
from surelabel.data.statistics import channel_statistics
from surelabel.models.backbones.pretrained import FEATURES, NAME, OFFSET, SCALE, EfficientNetLite0
from surelabel.utils.cache import content_key, fetch, locked, store, writable_cache
from surelabel.utils.errors import UserError

BATCH = 32
VERSION = 1  # of how features are computed


class FeatureSource(Derived):
    """The samples of a source of pictures, each as its features [D]."""

    def __init__(self, pictures: Source, features: NDArray[np.float32]) -> None:
        super().__init__(pictures)
        self.features: NDArray[np.float32] = features
        self.kind, self.shape, self.block_size = "features", features.shape[1:], 1

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.features[index])


def encoded(source: Source, progress: Progress | None = None) -> FeatureSource:
    """The features of all pictures: from the cache where they were computed before, else computed now."""
    image_shape(source.shape)
    if source.samples(np.arange(1)).dtype != np.uint8:
        raise UserError(f"{NAME} knows pictures with values from 0 to 255: these hold other numbers")
    place = writable_cache()
    if place is None:
        return FeatureSource(source, _compute(source, progress))
    key = content_key(source.samples(index).tobytes() for index in _batches(len(source)))
    path = place / f"features-{NAME}-{key}.rows"
    with locked(path):  # workers that begin together with the same pictures wait for the first
        stored = fetch(path, np.float32, version=VERSION)
        if stored is not None:
            return FeatureSource(source, stored.array)
        features = _compute(source, progress)
        with suppress(UserError):  # without room, they are computed again the next time
            store(path, features, version=VERSION)
        return FeatureSource(source, features)


def with_features(data: DataSet, progress: Progress | None = None) -> DataSet:
    """The data set of these pictures' features, each normalised to mean 0 and std 1 over the training set."""
    train = encoded(data.train, progress)
    test = None if data.test is None else encoded(data.test, progress)
    return replace(data, train=train, test=test, normalisation=channel_statistics(train, len(train)))


@torch.no_grad()
def _compute(source: Source, progress: Progress | None) -> NDArray[np.float32]:
    encoder = EfficientNetLite0().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    found = np.empty((len(source), FEATURES), np.float32)
    for index in _batches(len(source)):
        images = torch.from_numpy(source.samples(index)).contiguous(memory_format=torch.channels_last)
        found[index] = encoder((images.float() - OFFSET) / SCALE).numpy()
        if progress is not None:
            progress(int(index[-1]) + 1, len(source))
    return found


def _batches(count: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, count, BATCH):
        yield np.arange(start, min(start + BATCH, count))
