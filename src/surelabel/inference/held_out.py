"""Held-out labels for a run: where they come from, that they were not learnt from, what they say and calibrate."""

import re
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data import load as datasets
from surelabel.data.images.folder import FilesSkipped, load_labelled, load_unlabelled
from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.data.images.layout import image_files
from surelabel.data.images.map_files import printable
from surelabel.data.naming import called
from surelabel.data.part import part_of
from surelabel.data.shards import source as shards
from surelabel.data.source import UNLABELLED, DataSet, Images, Source, skipped_of
from surelabel.data.tables import source as table
from surelabel.data.tables.encoding import Encoding
from surelabel.data.tables.source import table_of
from surelabel.inference.predict import (
    as_trained_on,
    check_form,
    check_is_table,
    check_no_table,
    of_data_set,
    picture_shape,
    takes_pictures,
)
from surelabel.inference.trained_run import data_of, load_network
from surelabel.models.frozen_features import pictures_of
from surelabel.models.network import Network
from surelabel.training.evaluate import final_metrics, labelled_indices, predict
from surelabel.training.run_folder import RAW, RunFolder
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration, CalibrationFigures, CalibrationReport


def evaluate_on(run: str | Path, labelled: str, data_dir: str | None = None) -> tuple[dict[str, Any], FilesSkipped]:
    """The figures of a run on data with labels that it did not learn, and the files that could not be read.

    `data_dir` holds the files of a data set by name.
    """
    folder = RunFolder(run)
    data = data_of(folder)
    source, classes = labelled_source(labelled, data_dir, folder)
    index = np.flatnonzero(classes >= 0)
    _check_leakage(source, index, _trained_on(data.train, folder.labelled()), labelled)
    part = part_of(source, index)
    part.labels, part.classes = classes[index], folder.task().classes
    found = final_metrics(load_network(folder), load_network(folder, RAW), part, folder.config, data.train)
    return found, skipped_of(source)


def calibrate_run(
    run: str | Path, held_out: str, coverage: float, data_dir: str | None = None, pictures: str | None = None
) -> tuple["Calibration", "CalibrationReport"]:
    """Calibrate a run by held-out labels: data with labels, or "test:N" for N samples of the run's own test set.

    `data_dir` holds the files of a data set by name. With "test:N" the rest of the test set is evaluated as well. A
    table of files and classes may name files in the folder `pictures`, or in the one that the run was trained on.
    """
    from surelabel.inference import calibration  # which needs packages that evaluating does without

    folder = RunFolder(run)
    settings, task = folder.config, folder.task()
    calibration.check_meaningful(coverage)
    data = data_of(folder)
    learnt = _trained_on(data.train, folder.labelled())
    asked = re.fullmatch(r"test:(\d+)", held_out)
    if asked:
        source, classes, index, rest = _part_of_test(data, learnt, int(asked[1]), settings.data)
    else:
        source, classes = labelled_source(held_out, data_dir, folder, pictures)
        index, rest = np.flatnonzero(classes >= 0), np.zeros(0, dtype=np.int64)
        _check_leakage(source, index, learnt, held_out)
    calibration.check_enough(len(index), coverage)
    network, batch = load_network(folder), settings.evaluation.batch
    probs, labels = predict(network, source, index, batch).probs, torch.from_numpy(classes[index])
    fitted = calibration.fit_calibration(probs, labels, coverage)
    report = calibration.CalibrationReport(
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
    index = labelled_indices(data.test)
    index = index[[content not in learnt for content in _hashes(data.test, index)]]
    if samples > len(index):
        raise UserError(f"test:{samples} asks for more than the {len(index)} test samples that there are")
    order = generator(0, "held-out part").permutation(index)
    return data.test, data.test.labels, np.sort(order[:samples]), np.sort(order[samples:])


def labelled_source(
    held_out: str, data_dir: str | None, folder: RunFolder, pictures: str | None = None
) -> tuple[Source, NDArray[np.int64]]:
    """Data with labels, in the network's form, and the number that each label's name has in the run."""
    task, encoding, named = folder.task(), folder.table_encoding(), held_out in datasets.NAMED
    source: Source
    if encoding is not None:
        check_is_table(held_out, folder)
        source = _labelled_rows(held_out, encoding, folder)
    elif held_out.lower().endswith(".csv") and takes_pictures(folder) and not Path(held_out).is_dir():
        source = _listed_pictures(Path(held_out), pictures, folder)
    elif not named and Path(held_out).is_dir() and not shards.are_in(Path(held_out)):
        source = load_labelled(held_out, task.classes, picture_shape(folder))
    else:
        check_no_table(held_out, folder)
        source = of_data_set(held_out, data_dir if named else None, folder)
    source = as_trained_on(source, folder)
    check_form(source, held_out, folder)
    numbers = {name: number for number, name in enumerate(task.classes)}
    present = {source.classes[number] for number in np.unique(source.labels[labelled_indices(source)])}
    if not present:
        raise UserError(f"{held_out} has no labels: it must hold samples whose class is known")
    unknown = sorted(present - set(numbers))
    if unknown:
        raise UserError(
            f"{held_out} has the class {unknown[0]!r}, but the run knows only {', '.join(task.classes[:10])}"
            f"{', …' if len(task.classes) > 10 else ''}: name the classes as in the run's data"
        )
    number_of = np.array([numbers.get(name, -1) for name in source.classes] + [-1], dtype=np.int64)
    return source, number_of[source.labels]  # an unlabelled sample's -1 takes the last place


def _labelled_rows(held_out: str, encoding: Encoding, folder: RunFolder) -> Source:
    """The rows of a table with their labels, which stand in a column named as that of the run."""
    column = folder.config.label_column
    try:
        return table.load_labelled(held_out, encoding, folder.task().classes, column)
    except UserError as error:
        if "--label-column" not in str(error):
            raise
        # An option of `fit` alone: here the run says which column it is.
        asked = repr(column) if column is not None else f"one of {', '.join(table.LABEL_COLUMNS)}"
        raise UserError(
            f"{held_out} needs one column with the labels, named {asked}, as in the table of {folder.path}"
        ) from error


def _listed_pictures(listed: Path, pictures: str | None, folder: RunFolder) -> Source:
    """The pictures of the folder in which a table of files and classes names some; those have their class."""
    place, class_of = _where_listed(listed, pictures, folder)
    classes = tuple(sorted(set(class_of.values())))
    source = load_unlabelled(place, classes, picture_shape(folder))
    named = set(map(printable, class_of))
    source.skipped = tuple((file, reason) for file, reason in source.skipped if file in named)
    numbers = [classes.index(class_of[file]) if file in class_of else UNLABELLED for file in source.paths]
    source.labels = np.array(numbers, dtype=np.int64)
    return source


def _where_listed(listed: Path, pictures: str | None, folder: RunFolder) -> tuple[Path, dict[str, str]]:
    """The folder that holds the files which a table names, and their classes: `pictures`, or the run's own data."""
    run = folder.config
    own = [] if run.data in datasets.NAMED else [Path(run.data_dir or ".", run.data)]
    places = {place.resolve(): place for place in [*([] if pictures is None else [Path(pictures)]), *own]}
    places = {real: place for real, place in places.items() if place.is_dir() and not shards.are_in(place)}
    found, errors = [], []
    for place in places.values():
        present = {file.relative_to(place).as_posix() for file in image_files(place)}
        try:
            found.append((place, read_labels_csv(listed, present, place)))
        except UserError as error:
            errors.append(error)
    remedy = "put the pictures into a folder with a labels.csv, and give that folder"
    if len(found) > 1:
        raise UserError(f"{listed}: {found[0][0]} and {found[1][0]} both hold files of these names: {remedy}")
    if not found and errors:
        raise UserError("; ".join(dict.fromkeys(map(str, errors)))) from errors[0]
    if not found:
        raise UserError(f"{listed} names files, and there is no folder to look for them in: {remedy}")
    return found[0]


def _check_leakage(source: Source, index: NDArray[np.int64], learnt: set[bytes], name: str) -> None:
    """Raise where a held-out sample is, pixel for pixel, one whose label the run was trained on."""
    same = [place for place, content in zip(index, _hashes(source, index), strict=True) if content in learnt]
    if same:
        (first,) = called(source, np.array(same[:1]))
        raise UserError(
            f"{name}: {len(same)} of {len(index)} held-out samples (the first is {first}) are among the labelled "
            "ones that the run was trained on, and say nothing about new ones: take them away"
        )


def _trained_on(source: Source, labelled: NDArray[np.int64]) -> set[bytes]:
    """What was learnt with its label. Of a table in which rows repeat none: that a new one is equal proves nothing."""
    if table_of(source) is not None and len(set(_hashes(source, np.arange(len(source))))) < len(source):
        return set()
    return set(_hashes(source, labelled))


def _hashes(source: Source, index: NDArray[np.int64], batch: int = 1000) -> list[bytes]:
    """A hash of each sample's pixels or columns."""
    return [
        blake2b(_one_channel(image).tobytes(), digest_size=16).digest()
        for start in range(0, len(index), batch)
        for image in pictures_of(source, index[start : start + batch])
    ]


def _one_channel(image: Images) -> Images:
    """A grey picture in one channel: a run may have read it so that later is read in three, for its frozen encoder."""
    grey = image.ndim == 3 and len(image) == 3 and (image == image[:1]).all()
    return image[:1] if grey else image


def _figures(
    fitted: "Calibration", network: Network, source: Source, index: NDArray[np.int64], batch: int
) -> "CalibrationFigures":
    from surelabel.inference import calibration

    probs = predict(network, source, index, batch).probs
    labels = torch.from_numpy(source.labels[index])
    return calibration.figures(probs, fitted.probs(probs), fitted.sets(probs), labels, source.classes)
