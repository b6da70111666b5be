"""From a config to its data: the samples, and which of them are labelled."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.config.encoders import NONE
from surelabel.config.run import CUSTOM, RunConfig
from surelabel.data.batch import Task
from surelabel.data.holdout import choose_held_out, parse_holdout, without
from surelabel.data.images.map_files import Progress
from surelabel.data.images.resized import Resized
from surelabel.data.images.scaling import PLAIN
from surelabel.data.label_list import read_listed
from surelabel.data.open import open_data
from surelabel.data.source import DataSet, Source
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.models.encoders import in_python, open_encoder
from surelabel.models.encoders.base import Encoder, TorchEncoder
from surelabel.models.frozen_features import check_pictures, encoded, with_features
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.utils.devices import resolve_device
from surelabel.utils.errors import UserError

CheckLabels = Callable[[Source, NDArray[np.int64]], None]  # the training samples, and which of them are labelled


def load_data(
    config: RunConfig,
    components: Components = NO_COMPONENTS,
    progress: Progress | None = None,
    check: CheckLabels | None = None,
) -> tuple[DataSet, NDArray[np.int64]]:
    """The data set of a config, and the indices of its labelled training samples.

    `check` is called as soon as these are known, before the features of an encoder, which may take long.
    """
    encoder = encoder_of(config, components)  # first: it may not be there, and reading the data takes long
    if config.train_encoder:
        trainable(encoder)
    if encoder is not None and encoder.reads != "pictures":
        raise UserError(
            f"encoder {encoder.name} reads {encoder.reads}, and {config.data} holds pictures: choose another"
        )
    seen = None if encoder is None else encoder.preprocessing
    if config.data == CUSTOM:
        data = components.given_data()
    else:
        files = config.label_files
        data = open_data(
            config.data, config.data_dir, config.label_column, config.table, files, progress,
            config.image_size if seen is None else seen.side,
            scaling=PLAIN if seen is None else seen.scaling,
            group_column=config.group_column,
        )  # fmt: skip
    if len(data.classes) < 2:
        named = f"one class only, {data.classes[0]!r}" if data.classes else "no class at all"
        raise UserError(
            f"{', '.join(config.label_files) or config.data} names {named}: a classifier needs labels of two or more"
        )
    labelled = build_split(config, data)
    if check is not None:
        check(data.train, labelled)
    if encoder is not None:
        check_pictures(data.train, encoder)
        test = None if data.test is None else _sized(data.test, encoder)
        data = replace(data, train=_sized(data.train, encoder), test=test)
        if config.train_encoder:  # which normalises its pictures itself
            channels = data.train.shape[0]
            data = replace(data, normalisation=((0.0,) * channels, (1.0,) * channels))
        else:
            data = with_features(data, encoder, progress)
    if config.holdout is None:
        return data, labelled
    request, train = parse_holdout(config.holdout), data.train
    random = labelled[train.at_random(labelled)]
    held = choose_held_out(train.labels, random, request, config.seed, data.classes, train.groups)
    return without(data, labelled, held)


def encoder_of(config: RunConfig, components: Components = NO_COMPONENTS) -> Encoder | None:
    """The encoder of a config, opened; None without one."""
    if config.encoder == NONE:
        return None
    if config.encoder == CUSTOM:
        return in_python.opened(components.given_encoder(), config.image_size)
    # One that is trained further describes nothing: its copy goes to the device of the network.
    device = "cpu" if config.train_encoder else resolve_device(config.device)
    return open_encoder(config.encoder, config.image_size, device=device)


def trainable(encoder: Encoder | None) -> TorchEncoder:
    """The encoder, if it is a network that can be trained further."""
    if not isinstance(encoder, TorchEncoder):
        name = "" if encoder is None else f" {encoder.name}"
        raise UserError(f"encoder{name} cannot be trained further: it is no torch network for pictures")
    return encoder


def as_seen(source: Source, encoder: Encoder | None, keep: bool = True, trained: bool = False) -> Source:
    """New samples as the network takes them: themselves or, of pictures for a run with an encoder, their features.

    Computed features are kept in the cache only if told to. An encoder that is trained further takes the pictures.
    """
    if encoder is None or len(source.shape) != 3:
        return source
    sized = _sized(source, encoder)
    return sized if trained else encoded(sized, encoder, keep=keep)


def _sized(source: Source, encoder: Encoder) -> Source:
    """The pictures as the encoder takes them, also those that were not read from files."""
    seen = encoder.preprocessing
    if seen is None or source.shape[1:] == (seen.side, seen.side):
        return source
    return Resized(source, seen.side, seen.scaling)


def build_split(config: RunConfig, data: DataSet) -> NDArray[np.int64]:
    """The indices of the labelled training samples: drawn by the seed, or those that a file lists."""
    if config.label_list is not None:
        files = data.train.files()
        if files is None:
            raise UserError(
                f"{config.label_list} lists files, but the samples of {config.data} have no file names: "
                "give a number of labels or a percentage"
            )
        return read_listed(Path(config.label_list), files, data.train.labels)
    request = "all" if config.label_files else parse_labels(config.labels)
    return draw_labelled(data.train.labels, len(data.classes), request, config.seed, data.class_counts, data.classes)


def fingerprint(data: DataSet) -> str:
    """A short hash of the training data: all labels, how they were drawn, and a hundred samples."""
    sample = np.linspace(0, len(data.train) - 1, 100, dtype=np.int64)
    held = blake2b(digest_size=8)
    # In parts: the labels may be mapped from a file larger than the memory.
    for start in range(0, len(data.train), 2**16):
        held.update(data.train.labels[start : start + 2**16].tobytes())
    held.update(data.train.pictures(sample).tobytes())
    for name in ("groups", "suggested"):  # what decides which labels were left out
        values = getattr(data.train, name)
        if values is not None and values.any():
            held.update(name.encode() + values.tobytes())
    return held.hexdigest()


def task_of(data: DataSet) -> Task:
    """What a network needs to know about the data."""
    dtype = data.train.samples(np.arange(1)).dtype
    return Task(data.train.shape, data.classes, str(dtype), data.offset, data.scale)
