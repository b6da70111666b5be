"""Predictions for new images, as CSV."""

import csv
from pathlib import Path

import numpy as np
import torch

from surelabel import datasets
from surelabel.data import shards
from surelabel.data.folder import FilesSkipped, FolderSource, load_unlabelled
from surelabel.data.source import Source
from surelabel.errors import UserError
from surelabel.evaluate import predict
from surelabel.files import atomic_write
from surelabel.fit import load_network
from surelabel.runfolder import RunFolder
from surelabel.types import Task


def predict_to_csv(run: str | Path, data: str, data_dir: str | None, out: Path) -> tuple[int, FilesSkipped]:
    """Write one line a sample: its name or index, the likeliest class, that class's probability, and the entropy.

    A Bayesian head adds the deviation of that probability over its samples.
    Returns the number of lines and the files that could not be read, each with the reason.
    """
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    source = _source(data, data_dir, task)
    dtype = str(source.images(np.arange(1)).dtype)
    if (source.shape, dtype) != (task.shape, task.dtype):
        raise UserError(
            f"{data} has images of {_form(source.shape, dtype)}; the network of {folder.path} was trained on "
            f"{_form(task.shape, task.dtype)}"
        )
    prediction = predict(load_network(folder), source, np.arange(len(source)), settings.evaluation.batch)
    confidence, number = prediction.probs.max(dim=-1)
    columns = {"confidence": confidence, "entropy": torch.special.entr(prediction.probs).sum(dim=-1)}
    if prediction.std is not None:
        columns["deviation"] = prediction.std.gather(-1, number[:, None]).squeeze(-1)
    names = source.paths if isinstance(source, FolderSource) else range(len(source))
    figures = torch.stack(list(columns.values()), dim=-1).tolist()
    with atomic_write(out) as file:
        lines = csv.writer(file)
        lines.writerow(["sample", "class", *columns])
        for name, which, row in zip(names, number.tolist(), figures, strict=True):
            lines.writerow([_cell(name), _cell(task.classes[which]), *(f"{figure:.6f}" for figure in row)])
    return len(source), getattr(source, "skipped", ())


def _source(data: str, data_dir: str | None, task: Task) -> Source:
    """All images of a folder, brought to the network's shape; of anything else the test set, or what there is."""
    if data not in datasets.NAMED and Path(data).is_dir() and not shards.are_in(Path(data)):
        return load_unlabelled(data, task.classes, task.shape)
    found = datasets.load(data, data_dir, task.shape)
    return found.train if found.test is None else found.test


def _cell(text: object) -> str:
    """A text that a spreadsheet will show, not compute: a name may begin with =, and did not come from us."""
    shown = str(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t", "\r")) else shown


def _form(shape: tuple[int, int, int], dtype: str) -> str:
    channels, height, width = shape
    return f"{channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
