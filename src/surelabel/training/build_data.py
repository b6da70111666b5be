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
from surelabel.data.probe import holds_texts
from surelabel.data.source import DataSet, Source
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.models.encoders import in_python, open_encoder
from surelabel.models.encoders.base import Encoder, TorchEncoder
from surelabel.models.frozen_features import check_readable, encoded, with_features
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.utils.devices import resolve_device
from surelabel.utils.errors import UserError

CheckLabels = Callable[[Source, NDArray[np.int64]], None]  # the training samples, and which of them are labelled


def load_data(
    config: RunConfig,
    components: Components = NO_COMPONENTS,
    progress: Progress | None = None,
    check: CheckLabels | None = None,
    encoder: Encoder | None = None,
) -> tuple[DataSet, NDArray[np.int64]]:
    """The data set of a config, and the indices of its labelled training samples.

    `check` is called as soon as these are known, before the features of an encoder, which may take long. `encoder` is
    the one of a stored run.
    """
    encoder = encoder or encoder_of(config, components)  # first: it may not be there, and reading the data takes long
    if config.train_encoder:
        trainable(encoder)
    if encoder is not None:
        _check_reads(encoder, config)
    seen = None if encoder is None else encoder.preprocessing
    if config.data == CUSTOM:
        data = components.given_data()
    else:
        files = config.label_files
        data = open_data(
            config.data, config.data_dir, config.label_column, config.table, files, progress,
            config.image_size if seen is None else seen.side,
            scaling=PLAIN if seen is None else seen.scaling,
            group_column=config.group_column, text_column=config.text_column,
            embedding_column=config.embedding_column, id_column=config.id_column,
        )  # fmt: skip
    if len(data.classes) < 2:
        named = f"one class only, {data.classes[0]!r}" if data.classes else "no class at all"
        raise UserError(
            f"{', '.join(config.label_files) or config.data} names {named}: a classifier needs labels of two or more"
        )
    labelled = build_split(config, data)
    if check is not None:
        check(data.train, labelled)
    held = _held_out(config, data, labelled)
    if encoder is not None:
        check_readable(data.train, encoder)
        test = None if data.test is None else sized(data.test, encoder)
        data = replace(data, train=sized(data.train, encoder), test=test)
        if config.train_encoder:  # which normalises its pictures itself
            channels = data.train.shape[0]
            data = replace(data, normalisation=((0.0,) * channels, (1.0,) * channels))
        else:
            texts = data.train.texts(np.setdiff1d(np.arange(len(data.train)), held))
            data = with_features(data, encoder if texts is None else encoder.fitted(texts), progress)
    return without(data, labelled, held) if len(held) else (data, labelled)


def _check_reads(encoder: Encoder, config: RunConfig) -> None:
    """Raise where an encoder of pictures is to read texts or the other way round, before the data are read."""
    place = Path(config.data_dir or ".", config.data)
    found = holds_texts(place) if place.is_dir() else replace(config, encoder=NONE).of_texts
    if config.data != CUSTOM and encoder.reads != (kind := "texts" if found else "pictures"):
        raise UserError(f"encoder {encoder.name} reads {encoder.reads}, and {config.data} holds {kind}: choose another")


def _held_out(config: RunConfig, data: DataSet, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labelled samples that are held out."""
    if config.holdout is None:
        return labelled[:0]
    request, train = parse_holdout(config.holdout), data.train
    random = labelled[train.at_random(labelled)]
    return choose_held_out(train.labels, random, request, config.seed, data.classes, train.groups)


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
    """New samples as the network takes them: themselves or, of pictures or texts for an encoder, their features.

    Computed features are kept in the cache only if told to. An encoder that is trained further takes the pictures.
    """
    if encoder is None or (len(source.shape) != 3 and source.kind != "texts"):
        return source
    resized = sized(source, encoder)
    return resized if trained else encoded(resized, encoder, keep=keep)


def sized(source: Source, encoder: Encoder) -> Source:
    """The pictures as the encoder takes them, also those that were not read from files."""
    seen = encoder.preprocessing
    if seen is None or source.kind == "texts" or source.shape[1:] == (seen.side, seen.side):
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
    for few in np.array_split(sample, 20):
        texts = data.train.texts(few)
        held.update(data.train.pictures(few).tobytes() if texts is None else "\n".join(texts).encode())
    for name in ("groups", "suggested"):  # what decides which labels were left out
        values = getattr(data.train, name)
        if values is not None and values.any():
            held.update(name.encode() + values.tobytes())
    return held.hexdigest()


def task_of(data: DataSet) -> Task:
    """What a network needs to know about the data."""
    dtype = data.train.samples(np.arange(1)).dtype
    return Task(data.train.shape, data.classes, str(dtype), data.offset, data.scale)
