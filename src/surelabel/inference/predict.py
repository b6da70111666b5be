"""Predictions for new samples, as CSV."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from surelabel.config.run import TABLE_FILES
from surelabel.data import load as datasets
from surelabel.data.images.folder import FilesSkipped, load_unlabelled
from surelabel.data.naming import called
from surelabel.data.shards import source as shards
from surelabel.data.source import Source, image_shape, skipped_of
from surelabel.data.tables.source import TableSource
from surelabel.data.tables.source import load_unlabelled as load_unlabelled_table
from surelabel.equations import entropy
from surelabel.inference.trained_run import load_network
from surelabel.models.frozen_features import encoded
from surelabel.models.prediction import Prediction
from surelabel.training.evaluate import predict
from surelabel.training.run_folder import RunFolder
from surelabel.utils.csv import write_csv
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration


def predict_to_csv(
    run: str | Path,
    data: str,
    data_dir: str | None,
    out: Path,
    calibration: "Calibration | None" = None,
    say: Callable[[str], None] = print,
) -> tuple[int, FilesSkipped]:
    """Predict all samples of some data, and write them as `write_predictions` does.

    Returns the number of lines and the files that could not be read, each with the reason; `say` is told of the columns
    of a table that are not used.
    """
    folder = RunFolder(run)
    batch = folder.config.evaluation.batch
    source = _source(data, data_dir, folder)
    for note in source.notes if isinstance(source, TableSource) else ():
        say(note)
    check_form(source, data, folder)
    prediction = predict(load_network(folder), source, np.arange(len(source)), batch)
    write_predictions(out, prediction, called(source, np.arange(len(source))), folder.task().classes, calibration)
    return len(source), skipped_of(source)


def write_predictions(
    out: Path,
    prediction: Prediction,
    names: Iterable[object],
    classes: tuple[str, ...],
    calibration: "Calibration | None" = None,
) -> None:
    """Write one line a sample: its name, the likeliest class, that class's probability, and the entropy.

    A Bayesian head adds the deviation of that probability over its samples. `calibration` corrects probability and
    entropy, and adds the set of classes, the likeliest first, and its size.
    """
    number = prediction.probs.argmax(dim=-1)
    probs = prediction.probs if calibration is None else calibration.probs(prediction.probs)
    columns: dict[str, list[float] | list[int] | list[str]] = {
        "confidence": probs.gather(-1, number[:, None])[:, 0].tolist(),
        "entropy": entropy(probs).tolist(),
    }
    if prediction.std is not None:
        columns["deviation"] = prediction.std.gather(-1, number[:, None])[:, 0].tolist()
    if calibration is not None:
        sets = calibration.sets(prediction.probs)
        columns |= {"set": _sets_in_words(sets, prediction.probs, classes), "set_size": sets.sum(dim=1).tolist()}
    likeliest = [classes[which] for which in number.tolist()]
    write_csv(out, ["sample", "class", *columns], zip(names, likeliest, *columns.values(), strict=True))


def _sets_in_words(sets: Tensor, probs: Tensor, classes: tuple[str, ...]) -> list[str]:
    """'cat|dog': the classes of each set, the likeliest first. sets [N, K], probs [N, K]."""
    order = probs.argsort(dim=-1, descending=True, stable=True)
    members = sets.gather(-1, order)
    return [
        "|".join(classes[which] for which, there in zip(row, held, strict=True) if there)
        for row, held in zip(order.tolist(), members.tolist(), strict=True)
    ]


def check_form(source: Source, name: str, folder: RunFolder) -> None:
    """Raise where samples are not of the shape and type that the run's network takes."""
    task, dtype = folder.task(), str(source.samples(np.arange(1)).dtype)
    if (source.shape, dtype) != (task.shape, task.dtype):
        raise UserError(
            f"{name} has {_form(source.shape, dtype)}; the network of {folder.path} was trained on "
            f"{_form(task.shape, task.dtype)}"
        )


def _source(data: str, data_dir: str | None, folder: RunFolder) -> Source:
    """All rows of a table, encoded as in training; all images of a folder, brought to the network's shape; of anything
    else the test set, or what there is.
    """
    task, encoding = folder.task(), folder.table_encoding()
    if encoding is not None:
        check_is_table(data, folder)
        return load_unlabelled_table(Path(data_dir or ".", data), encoding, task.classes, folder.config.label_column)
    check_no_table(data, folder)
    if data not in datasets.NAMED and Path(data).is_dir() and not shards.are_in(Path(data)):
        return as_trained_on(load_unlabelled(data, task.classes, picture_shape(folder)), folder)
    return as_trained_on(of_data_set(data, data_dir, folder), folder)


def of_data_set(data: str, data_dir: str | None, folder: RunFolder) -> Source:
    """The test set of some data, or what there is; pictures of shards are brought to the network's shape."""
    found = datasets.load(data, data_dir, shape=picture_shape(folder) if takes_pictures(folder) else None)
    return found.train if found.test is None else found.test


def check_is_table(data: str, folder: RunFolder) -> None:
    """Raise where a run on a table is given anything else."""
    if not data.lower().endswith(TABLE_FILES):
        raise UserError(f"{folder.path} was trained on a table: give it a file {' or '.join(TABLE_FILES)}, not {data}")


def check_no_table(data: str, folder: RunFolder) -> None:
    """Raise where a run on pictures or other arrays is given a table."""
    if data.lower().endswith(TABLE_FILES) and not Path(data).is_dir():
        known = "pictures: give it a folder of them, or a file" if takes_pictures(folder) else "arrays: give it a file"
        raise UserError(f"{folder.path} was trained on {known} .npz or .npy, not {data}")


def takes_pictures(folder: RunFolder) -> bool:
    """Whether the samples of a run are pictures, be it that the network sees features of them."""
    return folder.config.encoder != "none" or len(folder.task().shape) == 3


def picture_shape(folder: RunFolder) -> tuple[int, int, int]:
    """The form of the pictures that a run takes."""
    run = folder.config
    if run.encoder == "none":
        return image_shape(folder.task().shape)
    assert run.image_size is not None  # which resolving a run with an encoder sees to
    return 3, run.image_size, run.image_size


def as_trained_on(source: Source, folder: RunFolder) -> Source:
    """The pictures themselves, or, where the run has a frozen encoder, what that makes of them."""
    return source if folder.config.encoder == "none" else encoded(source)


def _form(shape: tuple[int, ...], dtype: str) -> str:
    if len(shape) != 3:
        return f"samples of shape {shape}, {dtype}"
    channels, height, width = shape
    return f"images of {channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
