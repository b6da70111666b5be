"""Features of pictures from a frozen network: computed once, then trained on like rows of a table."""

from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.config.encoders import check_installed
from surelabel.data.images.map_files import Progress
from surelabel.data.source import DataSet, Derived, Source, image_shape, in_batches
from surelabel.data.statistics import channel_statistics
from surelabel.models.backbones.pretrained import FEATURES, Encoder
from surelabel.utils.cache import content_key, fetch, locked, store, writable_cache
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.onnx import session, traced

BATCH = 8  # of more, the memory between layers leaves the processor's cache
VERSION = 2  # of how features are computed


class FeatureSource(Derived):
    """The features [D] of the pictures of a source."""

    def __init__(self, pictures: Source, features: NDArray[np.float32]) -> None:
        super().__init__(pictures)
        self.features: NDArray[np.float32] = features
        self.kind, self.shape, self.block_size = "features", features.shape[1:], 1

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(self.features[index])


def encoded(source: Source, name: str, progress: Progress | None = None, keep: bool = True) -> FeatureSource:
    """The features of all pictures by the encoder of this name, from the cache if they were computed before.

    They are stored there if they are to be kept.
    """
    shape = image_shape(source.shape)
    if source.samples(np.arange(1)).dtype != np.uint8:
        raise UserError(f"{name} needs uint8 images, with values from 0 to 255: convert these, or use no encoder")
    place = writable_cache()
    if place is None:
        return FeatureSource(source, compute(source, encoder_session(name, shape), progress))
    path = place / f"features-{name}-{content_key(chain([str(shape)], source.content()))}.rows"
    with locked(path):  # other workers with the same pictures wait for the first
        stored = fetch(path, np.float32, version=VERSION)
        if stored is not None:
            return FeatureSource(source, stored.array)
        features = compute(source, encoder_session(name, shape, place), progress)
        if keep:
            with suppress(UserError):  # if the disk is full, they are computed again next time
                store(path, features, version=VERSION)
        return FeatureSource(source, features)


def with_features(data: DataSet, name: str, progress: Progress | None = None) -> DataSet:
    """The data set of the pictures' features, each normalised to mean 0 and std 1 over the training set."""
    train = encoded(data.train, name, progress)
    test = None if data.test is None else encoded(data.test, name, progress)
    return replace(data, train=train, test=test, normalisation=channel_statistics(train, len(train)))


def encoder_session(name: str, shape: tuple[int, int, int], place: Path | None = None) -> Any:
    """The encoder for pictures of this shape, in onnxruntime: several times as fast as torch (bench/encode.py).

    Tracing it takes seconds, so the model is kept in the folder `place`.
    """
    check_installed(name)
    threads = torch.get_num_threads()
    if place is None:
        return session(_model(name, shape), threads)
    path = place / f"{name}-{'x'.join(map(str, shape))}-{VERSION}.onnx"
    with locked(path):
        if path.exists():
            with suppress(Exception):  # whatever onnxruntime raises of a damaged file, which is then made again
                return session(path, threads)
        model = _model(name, shape)
        with suppress(UserError), atomic_write(path, "wb") as file:
            file.write(model)
        return session(model, threads)


def _model(name: str, shape: tuple[int, int, int]) -> bytes:
    pictures = torch.zeros((2, *shape), dtype=torch.uint8)
    content: bytes = traced(Encoder(name), (pictures,), ["images"], ["features"]).SerializeToString()
    return content


def compute(source: Source, encoder: Any, progress: Progress | None = None) -> NDArray[np.float32]:
    found = np.empty((len(source), FEATURES), np.float32)
    done = 0
    for batch in in_batches(source, np.arange(len(source)), BATCH):
        found[done : done + len(batch)] = encoder.run(None, {"images": batch})[0]
        done += len(batch)
        if progress is not None:
            progress(done, len(source))
    return found
