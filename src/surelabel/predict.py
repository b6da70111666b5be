"""Predictions for new images, as CSV."""

import csv
from pathlib import Path

import numpy as np

from surelabel import datasets
from surelabel.data.source import Source
from surelabel.errors import UserError
from surelabel.evaluate import predict
from surelabel.files import atomic_write
from surelabel.fit import load_network
from surelabel.runfolder import RunFolder


def predict_to_csv(run: str | Path, data: str, data_dir: str | None, out: Path) -> int:
    """Write one line a sample: its name or index, the likeliest class, and that class's probability."""
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    found = datasets.load(data, data_dir)
    source: Source = found.test if data in datasets.NAMED and found.test is not None else found.train
    if source.shape != task.shape:
        raise UserError(
            f"{data} has images of {_shape(source.shape)}; the network of {folder.path} takes {_shape(task.shape)}"
        )
    network = load_network(folder).to(settings.device)
    probs = predict(network, source, np.arange(len(source)), settings.evaluation.batch).probs
    names = getattr(source, "names", None) or range(len(source))
    with atomic_write(out) as file:
        lines = csv.writer(file)
        lines.writerow(["sample", "class", "confidence"])
        confidence, number = probs.max(dim=-1)
        for name, which, share in zip(names, number.tolist(), confidence.tolist(), strict=True):
            lines.writerow([name, task.classes[which], f"{share:.6f}"])
    return len(source)


def _shape(shape: tuple[int, int, int]) -> str:
    channels, height, width = shape
    return f"{channels} channel{'s' if channels > 1 else ''} and {height}×{width} pixels"
