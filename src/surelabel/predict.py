"""Predictions for new images, as CSV."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from surelabel import datasets
from surelabel.data.folder import FilesSkipped, FolderSource, load_unlabelled
from surelabel.data.source import Source
from surelabel.errors import UserError
from surelabel.evaluate import predict
from surelabel.fit import load_network
from surelabel.runfolder import RunFolder
from surelabel.spreadsheet import write_csv
from surelabel.types import Task

if TYPE_CHECKING:
    from surelabel.calibration import Calibration


def predict_to_csv(
    run: str | Path, data: str, data_dir: str | None, out: Path, calibration: "Calibration | None" = None
) -> tuple[int, FilesSkipped]:
    """Write one line a sample: its name or index, the likeliest class, that class's probability, and the entropy.

    A Bayesian head adds the deviation of that probability over its samples. `calibration` corrects probability and
    entropy, and adds the set of classes, the likeliest first, and its size.
    Returns the number of lines and the files that could not be read, each with the reason.
    """
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    source = _source(data, data_dir, task)
    refuse_other_form(source, data, folder)
    prediction = predict(load_network(folder), source, np.arange(len(source)), settings.evaluation.batch)
    number = prediction.probs.argmax(dim=-1)
    probs = prediction.probs if calibration is None else calibration.probs(prediction.probs)
    columns: dict[str, list[float] | list[int] | list[str]] = {
        "confidence": probs.gather(-1, number[:, None])[:, 0].tolist(),
        "entropy": torch.special.entr(probs).sum(dim=-1).tolist(),
    }
    if prediction.std is not None:
        columns["deviation"] = prediction.std.gather(-1, number[:, None])[:, 0].tolist()
    if calibration is not None:
        sets = calibration.sets(prediction.probs)
        columns |= {"set": _sets_in_words(sets, prediction.probs, task.classes), "set_size": sets.sum(dim=1).tolist()}
    names = source.paths if isinstance(source, FolderSource) else range(len(source))
    classes = [task.classes[which] for which in number.tolist()]
    write_csv(out, ["sample", "class", *columns], zip(names, classes, *columns.values(), strict=True))
    return len(source), source.skipped if isinstance(source, FolderSource) else ()


def _sets_in_words(sets: Tensor, probs: Tensor, classes: tuple[str, ...]) -> list[str]:
    """'cat|dog': the classes of each set, the likeliest first. sets [N, K], probs [N, K]."""
    order = probs.argsort(dim=-1, descending=True, stable=True)
    members = sets.gather(-1, order)
    return [
        "|".join(classes[which] for which, there in zip(row, held, strict=True) if there)
        for row, held in zip(order.tolist(), members.tolist(), strict=True)
    ]


def refuse_other_form(source: Source, name: str, folder: RunFolder) -> None:
    """Raise where images are not of the shape and type that the run's network takes."""
    task, dtype = folder.task(), str(source.images(np.arange(1)).dtype)
    if (source.shape, dtype) != (task.shape, task.dtype):
        raise UserError(
            f"{name} has images of {_form(source.shape, dtype)}; the network of {folder.path} was trained on "
            f"{_form(task.shape, task.dtype)}"
        )


def _source(data: str, data_dir: str | None, task: Task) -> Source:
    """All images of a folder, brought to the network's shape; of anything else the test set, or what there is."""
    if data not in datasets.NAMED and Path(data).is_dir():
        return load_unlabelled(data, task.classes, task.shape)
    found = datasets.load(data, data_dir)
    return found.train if found.test is None else found.test


def _form(shape: tuple[int, int, int], dtype: str) -> str:
    channels, height, width = shape
    return f"{channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
