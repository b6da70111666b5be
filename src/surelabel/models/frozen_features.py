"""Features of pictures from a frozen network: computed once, then trained on like rows of a table."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.images.map_files import Progress
from surelabel.data.source import DataSet, Derived, Source, image_shape, in_batches
from surelabel.data.statistics import channel_statistics
from surelabel.models.backbones.pretrained import FEATURES, NAME, OFFSET, SCALE, EfficientNetLite0
from surelabel.utils.cache import content_key, fetch, locked, store, writable_cache
from surelabel.utils.errors import UserError

BATCH = 32
VERSION = 1  # of how features are computed


class FeatureSource(Derived):
    """The features [D] of the pictures of a source."""

    def __init__(self, pictures: Source, features: NDArray[np.float32]) -> None:
        super().__init__(pictures)
        self.features: NDArray[np.float32] = features
        self.kind, self.shape, self.block_size = "features", features.shape[1:], 1

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.features[index])


def encoded(source: Source, progress: Progress | None = None) -> FeatureSource:
    """The features of all pictures, from the cache if they were computed before."""
    image_shape(source.shape)
    if source.samples(np.arange(1)).dtype != np.uint8:
        raise UserError(f"{NAME} needs uint8 images, with values from 0 to 255: convert these, or use no encoder")
    place = writable_cache()
    if place is None:
        return FeatureSource(source, _compute(source, progress))
    key = content_key(images.tobytes() for images in in_batches(source, np.arange(len(source)), BATCH))
    path = place / f"features-{NAME}-{key}.rows"
    with locked(path):  # other workers with the same pictures wait for the first
        stored = fetch(path, np.float32, version=VERSION)
        if stored is not None:
            return FeatureSource(source, stored.array)
        features = _compute(source, progress)
        with suppress(UserError):  # if the disk is full, they are computed again next time
            store(path, features, version=VERSION)
        return FeatureSource(source, features)


def with_features(data: DataSet, progress: Progress | None = None) -> DataSet:
    """The data set of the pictures' features, each normalised to mean 0 and std 1 over the training set."""
    train = encoded(data.train, progress)
    test = None if data.test is None else encoded(data.test, progress)
    return replace(data, train=train, test=test, normalisation=channel_statistics(train, len(train)))


@torch.no_grad()
def _compute(source: Source, progress: Progress | None) -> NDArray[np.float32]:
    encoder = EfficientNetLite0().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    found = np.empty((len(source), FEATURES), np.float32)
    done = 0
    for batch in in_batches(source, np.arange(len(source)), BATCH):
        images = torch.from_numpy(batch).contiguous(memory_format=torch.channels_last)
        found[done : done + len(images)] = encoder((images.float() - OFFSET) / SCALE).numpy()
        done += len(images)
        if progress is not None:
            progress(done, len(source))
    return found
