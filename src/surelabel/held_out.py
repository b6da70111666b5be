"""Held-out labels for a run: where they come from, that they were not learnt from, and what they calibrate."""

import re
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel import calibration, datasets
from surelabel.calibration import Calibration, CalibrationFigures, CalibrationReport
from surelabel.data import shards, table
from surelabel.data.folder import load_labelled
from surelabel.data.naming import called
from surelabel.data.source import DataSet, Source, skipped_of
from surelabel.errors import UserError
from surelabel.evaluate import known, predict
from surelabel.features import pictures_of
from surelabel.network import Network
from surelabel.predict import as_trained_on, of_data_set, picture_shape, refuse_no_table, refuse_other_form
from surelabel.randomness import generator
from surelabel.runfolder import RunFolder
from surelabel.stored import data_of, load_network
from surelabel.types import Task


def calibrate_run(
    run: str | Path, held_out: str, coverage: float, data_dir: str | None = None
) -> tuple[Calibration, CalibrationReport]:
    """Calibrate a run by held-out labels: data with labels, or "test:N" for N samples of the run's own test set.

    `data_dir` holds the files of a data set by name. With "test:N" the rest of the test set is evaluated as well.
    """
    folder = RunFolder(run)
    settings, task = folder.run(), folder.task()
    calibration.refuse_meaningless(coverage)
    data = data_of(folder)
    learnt = _contents(data.train, folder.labelled())
    asked = re.fullmatch(r"test:(\d+)", held_out)
    if asked:
        source, classes, index, rest = _part_of_test(data, learnt, int(asked[1]), settings.data)
    else:
        source, classes = _labelled_source(held_out, data_dir, task, folder)
        index, rest = np.flatnonzero(classes >= 0), np.zeros(0, dtype=np.int64)
        _refuse_learnt(source, index, learnt, held_out)
    calibration.refuse_too_few(len(index), coverage)
    network, batch = load_network(folder), settings.evaluation.batch
    probs, labels = predict(network, source, index, batch).probs, torch.from_numpy(classes[index])
    fitted = calibration.fit_calibration(probs, labels, coverage)
    report = CalibrationReport(
        labels=len(index),
        coverage=coverage,
        temperature=fitted.temperature,
        held_out=calibration.cross_fitted(probs, labels, coverage, task.classes),
        rest=_figures(fitted, network, source, rest, batch) if len(rest) else None,
        skipped=skipped_of(source),
    )
    return fitted, report


def _part_of_test(
    data: DataSet, learnt: set[bytes], samples: int, name: str
) -> tuple[Source, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The test set, its classes, a fixed draw of so many samples, and the rest; without those that were learnt from."""
    if data.test is None:
        raise UserError(f"{name} has no test set to take {samples} samples of: give held-out data instead of test:N")
    index = known(data.test)
    index = index[[content not in learnt for content in _contents_in_order(data.test, index)]]
    if samples > len(index):
        raise UserError(f"test:{samples} asks for more than the {len(index)} test samples that there are")
    order = generator(0, "held-out part").permutation(index)
    return data.test, data.test.labels, np.sort(order[:samples]), np.sort(order[samples:])


def _labelled_source(
    held_out: str, data_dir: str | None, task: Task, folder: RunFolder
) -> tuple[Source, NDArray[np.int64]]:
    """Data with labels, in the network's form, and the number that each label's name has in the run."""
    encoding, named = folder.table_encoding(), held_out in datasets.NAMED
    source: Source
    if encoding is not None:
        refuse_no_table(held_out, folder)
        source = table.load_labelled(held_out, encoding, task.classes, folder.run().label_column)
    elif not named and Path(held_out).is_dir() and not shards.are_in(Path(held_out)):
        source = load_labelled(held_out, task.classes, picture_shape(folder))
    else:
        source = of_data_set(held_out, data_dir if named else None, folder)
    source = as_trained_on(source, folder)
    refuse_other_form(source, held_out, folder)
    numbers = {name: number for number, name in enumerate(task.classes)}
    present = {source.classes[number] for number in np.unique(source.labels[known(source)])}
    if not present:
        raise UserError(f"{held_out} has no labels: calibration needs samples whose class is known")
    unknown = sorted(present - set(numbers))
    if unknown:
        raise UserError(
            f"{held_out} has the class {unknown[0]!r}, but the run knows only {', '.join(task.classes[:10])}"
            f"{', …' if len(task.classes) > 10 else ''}: name the classes as in the run's data"
        )
    number_of = np.array([numbers.get(name, -1) for name in source.classes] + [-1], dtype=np.int64)
    return source, number_of[source.labels]  # an unlabelled sample's -1 takes the last place


def _refuse_learnt(source: Source, index: NDArray[np.int64], learnt: set[bytes], name: str) -> None:
    """Raise where a held-out sample is, pixel for pixel, one whose label the run was trained on."""
    same = [place for place, content in zip(index, _contents_in_order(source, index), strict=True) if content in learnt]
    if same:
        (first,) = called(source, np.array(same[:1]))
        raise UserError(
            f"{name}: {len(same)} of {len(index)} held-out samples (the first is {first}) are among the labelled "
            "ones that the run was trained on, where its confidence says nothing: take them away"
        )


def _contents(source: Source, index: NDArray[np.int64]) -> set[bytes]:
    return set(_contents_in_order(source, index))


def _contents_in_order(source: Source, index: NDArray[np.int64], batch: int = 1000) -> list[bytes]:
    """A hash of each sample's pixels or columns."""
    return [
        blake2b(image.tobytes(), digest_size=16).digest()
        for start in range(0, len(index), batch)
        for image in pictures_of(source, index[start : start + batch])
    ]


def _figures(
    fitted: Calibration, network: Network, source: Source, index: NDArray[np.int64], batch: int
) -> CalibrationFigures:
    probs = predict(network, source, index, batch).probs
    labels = torch.from_numpy(source.labels[index])
    return calibration.figures(probs, fitted.probs(probs), fitted.sets(probs), labels, source.classes)
