"""Turns a `Run` into its data: what is learnt from, and which labels are given away."""

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import CUSTOM, RunConfig
from surelabel.data import load as datasets
from surelabel.data.batch import Task
from surelabel.data.holdout import choose_held_out, parse_holdout, without
from surelabel.data.images.folder import folder_of
from surelabel.data.images.map_files import Progress
from surelabel.data.label_list import read_listed
from surelabel.data.shards.source import ShardSource
from surelabel.data.source import DataSet
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.models.backbones import pretrained
from surelabel.models.frozen_features import pictures_of, with_features
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.utils.errors import UserError


def load_data(
    run: RunConfig, own: Components = NO_COMPONENTS, progress: Progress | None = None
) -> tuple[DataSet, NDArray[np.int64]]:
    """The data that a run names, or was given, and which of its training samples give their labels away."""
    if run.data == CUSTOM:
        data = own.given_data()
    else:
        data = datasets.load(
            run.data, run.data_dir, run.label_column, run.table, run.label_files, progress, run.image_size
        )
    if len(data.classes) < 2:
        named = f"one class only, {data.classes[0]!r}" if data.classes else "no class at all"
        raise UserError(
            f"{', '.join(run.label_files) or run.data} names {named}: a classifier needs labels of two or more"
        )
    if run.encoder != "none":
        data = with_features(data, progress)
    elif run.network.name == pretrained.NAME and data.train.samples(np.arange(1)).dtype == np.uint8:
        channels = len(data.offset)
        data = replace(data, offset=(pretrained.OFFSET,) * channels, scale=(pretrained.SCALE,) * channels)
    labelled = build_split(run, data)
    if run.holdout is None:
        return data, labelled
    held = choose_held_out(data.train.labels, labelled, parse_holdout(run.holdout), run.seed, data.classes)
    return without(data, labelled, held)


def build_split(run: RunConfig, data: DataSet) -> NDArray[np.int64]:
    """Which training samples give their labels away, by the run's seed or by a list; all that a table names."""
    if run.label_list is not None:
        files = folder_of(data.train)
        names = data.train.names() if isinstance(data.train, ShardSource) else None if files is None else files.paths
        if names is None:
            raise UserError(f"--labels {run.label_list} lists files, and --data {run.data} has none")
        return read_listed(Path(run.label_list), names, data.train.labels)
    request = "all" if run.label_files else parse_labels(run.labels)
    return draw_labelled(data.train.labels, len(data.classes), request, run.seed, data.class_counts, data.classes)


def fingerprint(data: DataSet) -> str:
    """A short hash of the training data: all labels, and a hundred samples spread over it."""
    sample = np.linspace(0, len(data.train) - 1, 100, dtype=np.int64)
    held = blake2b(digest_size=8)
    # Part by part, since the labels may be mapped from a file larger than the memory.
    for start in range(0, len(data.train), 2**16):
        held.update(data.train.labels[start : start + 2**16].tobytes())
    held.update(pictures_of(data.train, sample).tobytes())
    return held.hexdigest()


def task_of(data: DataSet) -> Task:
    """What a network has to know of this data."""
    dtype = data.train.samples(np.arange(1)).dtype
    return Task(data.train.shape, data.classes, str(dtype), data.offset, data.scale)
