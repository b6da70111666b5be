"""Predictions for new samples, as CSV."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from surelabel import datasets
from surelabel.config import TABLE_FILES
from surelabel.data.folder import FilesSkipped, FolderSource, load_unlabelled
from surelabel.data.source import Source, image_shape
from surelabel.data.table import TableSource
from surelabel.data.table import load_unlabelled as load_unlabelled_table
from surelabel.errors import UserError
from surelabel.evaluate import predict
from surelabel.features import seen_by_trunk
from surelabel.files import atomic_write
from surelabel.fit import load_network
from surelabel.runfolder import RunFolder


def predict_to_csv(
    run: str | Path, data: str, data_dir: str | None, out: Path, say: Callable[[str], None] = print
) -> tuple[int, FilesSkipped]:
    """Write one line a sample: its name or index, the likeliest class, that class's probability, and the entropy.

    A Bayesian head adds the deviation of that probability over its samples.
    Returns the number of lines and the files that could not be read, each with the reason; `say` is told of the columns
    of a table that are not used.
    """
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    source = _source(data, data_dir, folder)
    for note in source.notes if isinstance(source, TableSource) else ():
        say(note)
    dtype = str(source.images(np.arange(1)).dtype)
    if (source.shape, dtype) != (task.shape, task.dtype):
        raise UserError(
            f"{data} has {_form(source.shape, dtype)}; the network of {folder.path} was trained on "
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
    return len(source), source.skipped if isinstance(source, FolderSource) else ()


def _source(data: str, data_dir: str | None, folder: RunFolder) -> Source:
    """All rows of a table, encoded as in training; all images of a folder, brought to the network's shape; of anything
    else the test set, or what there is.
    """
    task, encoding = folder.task(), folder.table_encoding()
    if encoding is not None:
        if not data.lower().endswith(TABLE_FILES):
            raise UserError(
                f"{folder.path} was trained on a table: give it a file {' or '.join(TABLE_FILES)}, not {data}"
            )
        return load_unlabelled_table(Path(data_dir or ".", data), encoding, task.classes)
    run = folder.run()
    if data not in datasets.NAMED and Path(data).is_dir():
        shape = image_shape(task.shape if run.network.trunk == "none" else (3, run.pixels or 0, run.pixels or 0))
        pictures: Source = load_unlabelled(data, task.classes, shape)
    else:
        found = datasets.load(data, data_dir)
        pictures = found.train if found.test is None else found.test
    return pictures if run.network.trunk == "none" else seen_by_trunk(pictures)


def _cell(text: object) -> str:
    """A text that a spreadsheet will show, not compute: a name may begin with =, and did not come from us."""
    shown = str(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t", "\r")) else shown


def _form(shape: tuple[int, ...], dtype: str) -> str:
    if len(shape) != 3:
        return f"samples of shape {shape}, {dtype}"
    channels, height, width = shape
    return f"images of {channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
