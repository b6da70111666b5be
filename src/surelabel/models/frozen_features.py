"""Features of pictures or texts from a frozen encoder: computed once, then trained on like rows of a table."""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.images.map_files import Progress
from surelabel.data.source import DataSet, Derived, Source, image_shape, in_batches
from surelabel.data.statistics import channel_statistics
from surelabel.models.encoders.base import Encoder
from surelabel.utils.cache import content_key, fetch, locked, store, writable_cache
from surelabel.utils.errors import UserError

BATCH = 8  # of more, the memory between layers leaves the processor's cache
TEXTS = 256  # in a batch
VERSION = 3  # of how features are computed


class FeatureSource(Derived):
    """The features [D] of the pictures or texts of a source, and the encoder that made them."""

    def __init__(self, whole: Source, features: NDArray[np.float32], encoder: Encoder | None = None) -> None:
        super().__init__(whole)
        self.encoder = encoder
        self.features: NDArray[np.float32] = features
        self.kind, self.shape, self.block_size = "features", features.shape[1:], 1

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.features[index])


def encoded(source: Source, encoder: Encoder, progress: Progress | None = None, keep: bool = True) -> FeatureSource:
    """The features of all samples, from the cache if they were computed before.

    They are stored there if they are to be kept.
    """
    shape = check_reads(source, encoder)
    place = writable_cache()
    # One that was fitted to a pool is quick, and of no use to another run.
    if place is None or not encoder.fingerprint or encoder.tensors():
        return FeatureSource(source, compute(source, encoder, progress), encoder)
    key = content_key((encoder.name, encoder.fingerprint, str(shape), *source.content()))
    path = place / f"features-{re.sub('[^A-Za-z0-9.]+', '-', encoder.name)[-60:]}-{key}.rows"
    with locked(path):  # other workers with the same pictures wait for the first
        stored = fetch(path, np.float32, version=VERSION)
        if stored is not None:
            return FeatureSource(source, stored.array, encoder)
        features = compute(source, encoder, progress)
        if keep:
            with suppress(UserError):  # if the disk is full, they are computed again next time
                store(path, features, version=VERSION)
        return FeatureSource(source, features, encoder)


def check_reads(source: Source, encoder: Encoder) -> tuple[int, ...]:
    """The shape of the samples, if they are such as the encoder reads; else an error."""
    kind = "texts" if source.kind == "texts" else "pictures"
    shape = source.shape if kind == "texts" else image_shape(source.shape)
    if encoder.reads != kind:
        raise UserError(f"encoder {encoder.name} reads {encoder.reads}, and these samples are {kind}: choose another")
    if kind == "pictures" and source.samples(np.arange(1)).dtype != np.uint8:
        raise UserError(
            f"{encoder.name} needs uint8 images, with values from 0 to 255: convert these, or use no encoder"
        )
    return shape


def with_features(data: DataSet, encoder: Encoder, progress: Progress | None = None) -> DataSet:
    """The data set of the samples' features, normalised over the training set: each to mean 0 and std 1 or, where their
    sizes count, all by one number.
    """
    train = encoded(data.train, encoder, progress)
    test = None if data.test is None else encoded(data.test, encoder, progress)
    offset, scale = channel_statistics(train, len(train))
    if encoder.ranked:
        scale = (float(np.sqrt(np.mean(np.square(scale)))),) * len(scale)
    return replace(data, train=train, test=test, normalisation=(offset, scale))


def compute(source: Source, encoder: Encoder, progress: Progress | None = None) -> NDArray[np.float32]:
    """The features [N, D] of all samples; an error names one that has none."""
    found: NDArray[np.float32] = np.empty((0, 0), np.float32)
    done = 0
    for batch in _batches(source):
        rows = encoder(batch)
        if done == 0:
            found = np.empty((len(source), *rows.shape[1:]), np.float32)
        if rows.ndim != 2 or rows.shape != (len(batch), *found.shape[1:]):
            raise UserError(
                f"encoder {encoder.name} turns {len(batch)} samples into an array {rows.shape}: it must give features "
                "[n, D], one row for each"
            )
        found[done : done + len(batch)] = rows
        if not (finite := np.isfinite(rows).all(axis=1)).all():
            name = source.names(np.array([done + int(finite.argmin())]))[0]
            raise UserError(f"encoder {encoder.name} gives features of {name} that are not finite: choose another")
        done += len(batch)
        if progress is not None:
            progress(done, len(source))
    return found


def _batches(source: Source) -> Iterable[Any]:
    """The samples as the encoder takes them."""
    index = np.arange(len(source))
    if source.kind != "texts":
        return in_batches(source, index, BATCH)
    return (source.texts(index[start : start + TEXTS]) for start in range(0, len(index), TEXTS))
