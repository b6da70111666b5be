"""Held-out labels for a run: that they were not trained on, what they say, and calibration by them."""

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.open_like import open_labelled_like
from surelabel.data.source import DataSet, FilesSkipped, Images, Source, Subset
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.network import Network
from surelabel.training.evaluate import final_metrics, labelled_indices, predict, predict_test
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration, CalibrationMetrics, CalibrationReport


def evaluate_on(run: TrainedRun, labelled: str, data_dir: str | None = None) -> tuple[dict[str, Any], FilesSkipped]:
    """The metrics of a run on labelled data that it was not trained on, and the files that could not be read.

    `data_dir` holds the files of a data set by name.
    """
    source, classes = labelled_source(run, labelled, data_dir)
    index = np.flatnonzero(classes >= 0)
    _check_leakage(source, index, _trained_on(run.data.train, run.labelled), labelled)
    test = Subset(source, index)
    test.labels, test.classes = classes[index], run.task.classes
    prediction = predict_test(run.network, test, run.config)
    return final_metrics(prediction, run.raw_network, test, run.config, run.data.train), source.skipped


def calibrate(
    run: TrainedRun, held_out: str, coverage: float, data_dir: str | None = None, pictures: str | None = None
) -> tuple["Calibration", "CalibrationReport"]:
    """Calibrate a run by held-out labels: data with labels, or "test:N" for N samples of the run's own test set.

    `data_dir` holds the files of a data set by name. With "test:N" the rest of the test set is evaluated as well. A
    table of files and classes may name files in the folder `pictures`, or in the one that the run was trained on.
    """
    from surelabel.inference import calibration  # which needs packages that evaluating does without

    calibration.check_meaningful(coverage)
    learnt = _trained_on(run.data.train, run.labelled)
    asked = re.fullmatch(r"test:(\d+)", held_out)
    if asked:
        source, classes, index, rest = _part_of_test(run.data, learnt, int(asked[1]), run.config.data)
    else:
        source, classes = labelled_source(run, held_out, data_dir, pictures)
        index, rest = np.flatnonzero(classes >= 0), np.zeros(0, dtype=np.int64)
        _check_leakage(source, index, learnt, held_out)
    calibration.check_enough(len(index), coverage)
    batch = run.config.evaluation.batch
    probs, labels = predict(run.network, source, index, batch).probs, torch.from_numpy(classes[index])
    fitted = calibration.fit_calibration(probs, labels, coverage)
    report = calibration.CalibrationReport(
        labels=len(index),
        coverage=coverage,
        temperature=fitted.temperature,
        held_out=calibration.cross_fitted(probs, labels, coverage, run.task.classes),
        rest=_metrics(fitted, run.network, source, rest, batch) if len(rest) else None,
        skipped=source.skipped,
    )
    return fitted, report


def labelled_source(
    run: TrainedRun, held_out: str, data_dir: str | None = None, pictures: str | None = None
) -> tuple[Source, NDArray[np.int64]]:
    """Data with labels, in the network's form, and the number that each label has in the run."""
    source, classes = open_labelled_like(held_out, run.form, data_dir, pictures)
    source = run.as_trained_on(source)
    run.check_form(source, held_out)
    return source, classes


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


def _check_leakage(source: Source, index: NDArray[np.int64], learnt: set[bytes], name: str) -> None:
    """Raise where a held-out sample is, pixel for pixel, one whose label the run was trained on."""
    same = [place for place, content in zip(index, _hashes(source, index), strict=True) if content in learnt]
    if same:
        (first,) = source.names(np.array(same[:1]))
        raise UserError(
            f"{name}: {len(same)} of {len(index)} held-out samples (the first is {first}) are among the labelled "
            "ones that the run was trained on, and say nothing about new ones: take them away"
        )


def _trained_on(source: Source, labelled: NDArray[np.int64]) -> set[bytes]:
    """What was learnt with its label. Of a table in which rows repeat none: that a new one is equal proves nothing."""
    if source.kind == "table" and len(set(_hashes(source, np.arange(len(source))))) < len(source):
        return set()
    return set(_hashes(source, labelled))


def _hashes(source: Source, index: NDArray[np.int64], batch: int = 1000) -> list[bytes]:
    """A hash of each sample's pixels or columns."""
    return [
        blake2b(_one_channel(image).tobytes(), digest_size=16).digest()
        for start in range(0, len(index), batch)
        for image in source.pictures(index[start : start + batch])
    ]


def _one_channel(image: Images) -> Images:
    """A grey picture in one channel: a run may have read it so that later is read in three, for its frozen encoder."""
    grey = image.ndim == 3 and len(image) == 3 and (image == image[:1]).all()
    return image[:1] if grey else image


def _metrics(
    fitted: "Calibration", network: Network, source: Source, index: NDArray[np.int64], batch: int
) -> "CalibrationMetrics":
    from surelabel.inference import calibration

    probs = predict(network, source, index, batch).probs
    labels = torch.from_numpy(source.labels[index])
    return calibration.metrics_of(probs, fitted.probs(probs), fitted.sets(probs), labels, source.classes)
