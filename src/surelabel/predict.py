"""Predictions for new images, as CSV."""

import csv
from pathlib import Path

import numpy as np

from surelabel import datasets
from surelabel.data.folder import FolderSource
from surelabel.data.folder import load as load_folder
from surelabel.data.source import Source
from surelabel.errors import UserError
from surelabel.evaluate import predict
from surelabel.files import atomic_write
from surelabel.fit import load_network
from surelabel.runfolder import RunFolder
from surelabel.types import Task


def predict_to_csv(run: str | Path, data: str, data_dir: str | None, out: Path) -> int:
    """Write one line a sample: its name or index, the likeliest class, and that class's probability."""
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    source = _source(data, data_dir, task)
    if source.shape != task.shape:
        raise UserError(
            f"{data} has images of {_shape(source.shape)}; the network of {folder.path} takes {_shape(task.shape)}"
        )
    network = load_network(folder).to(settings.device)
    probs = predict(network, source, np.arange(len(source)), settings.evaluation.batch).probs
    names = source.paths if isinstance(source, FolderSource) else range(len(source))
    with atomic_write(out) as file:
        lines = csv.writer(file)
        lines.writerow(["sample", "class", "confidence"])
        confidence, number = probs.max(dim=-1)
        for name, which, share in zip(names, number.tolist(), confidence.tolist(), strict=True):
            lines.writerow([name, task.classes[which], f"{share:.6f}"])
    return len(source)


def _source(data: str, data_dir: str | None, task: Task) -> Source:
    """The test part of a named data set; all images of a folder, brought to the network's shape; or an array file."""
    if data not in datasets.NAMED and Path(data).is_dir():
        return load_folder(data, classes=task.classes, shape=task.shape).train
    found = datasets.load(data, data_dir)
    return found.test if data in datasets.NAMED and found.test is not None else found.train


def _shape(shape: tuple[int, int, int]) -> str:
    channels, height, width = shape
    return f"{channels} channel{'s' if channels > 1 else ''} and {height}×{width} pixels"
