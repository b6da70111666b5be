"""Evaluate or calibrate a run on held-out labels, after a check for leakage."""

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.open_like import open_labelled_like
from surelabel.data.source import FilesSkipped, Images, Source, Subset
from surelabel.data.statistics import chunks
from surelabel.inference.trained_run import TrainedRun
from surelabel.training.evaluate import final_metrics, labelled_indices, predict, predict_test
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration, CalibrationReport


def evaluate_on(run: TrainedRun, labelled: str, data_dir: str | None = None) -> tuple[dict[str, Any], FilesSkipped]:
    """Metrics of a run on held-out labelled data, and the files that could not be read.

    `data_dir` holds the files of a data set by name.
    """
    source, classes = labelled_source(run, labelled, data_dir)
    index = np.flatnonzero(classes >= 0)
    _check_leakage(source, index, _trained_on(run), labelled)
    test = Subset(source, index)
    test.labels, test.classes = classes[index], run.task.classes
    prediction = predict_test(run.network, test, run.config)
    return final_metrics(prediction, run.raw_network, test, run.config, run.data.train), source.skipped


def calibrate(
    run: TrainedRun, held_out: str, coverage: float, data_dir: str | None = None, pictures: str | None = None
) -> tuple["Calibration", "CalibrationReport"]:
    """Calibrate a run on held-out labels: labelled data, or "test:N" for N samples of the run's test set.

    `data_dir` holds the files of a data set by name. With "test:N" the rest of the test set is evaluated as well. A
    table of files and classes may name files in the folder `pictures`, or in the one that the run was trained on.
    """
    from surelabel.inference import calibration  # needs packages that evaluation does not

    calibration.check_meaningful(coverage)
    trained_on = _trained_on(run)
    rest = np.zeros(0, dtype=np.int64)
    if asked := re.fullmatch(r"test:(\d+)", held_out):
        source, index, rest = _split_test(run, trained_on, int(asked[1]))
        classes = source.labels
    else:
        source, classes = labelled_source(run, held_out, data_dir, pictures)
        index = np.flatnonzero(classes >= 0)
        _check_leakage(source, index, trained_on, held_out)
    calibration.check_enough(len(index), coverage)
    batch, names = run.config.evaluation.batch, run.task.classes
    probs, labels = predict(run.network, source, index, batch).probs, torch.from_numpy(classes[index])
    fitted = calibration.fit_calibration(probs, labels, coverage)
    held_out_metrics, rest_metrics = calibration.cross_fitted(probs, labels, coverage, names), None
    if len(rest):
        probs, labels = predict(run.network, source, rest, batch).probs, torch.from_numpy(classes[rest])
        rest_metrics = calibration.metrics_of(probs, fitted.probs(probs), fitted.sets(probs), labels, names)
    return fitted, calibration.CalibrationReport(
        len(index), coverage, fitted.temperature, held_out_metrics, rest_metrics, source.skipped
    )


def labelled_source(
    run: TrainedRun, held_out: str, data_dir: str | None = None, pictures: str | None = None
) -> tuple[Source, NDArray[np.int64]]:
    """Labelled data in the form that the network takes, and each sample's class as a number of the run."""
    source, classes = open_labelled_like(held_out, run.form, data_dir, pictures)
    source = run.as_trained_on(source)
    run.check_form(source, held_out)
    return source, classes


def _split_test(
    run: TrainedRun, trained_on: set[bytes], samples: int
) -> tuple[Source, NDArray[np.int64], NDArray[np.int64]]:
    """The test set, a fixed draw of this many samples, and the rest; both without leakage."""
    test = run.data.test
    if test is None:
        raise UserError(f"{run.config.data} has no test set for test:{samples}: give held-out data instead")
    index = labelled_indices(test)
    index = index[[content not in trained_on for content in _hashes(test, index)]]
    if samples > len(index):
        raise UserError(f"test:{samples} asks for more than the {len(index)} test samples that there are")
    order = generator(0, "held-out part").permutation(index)
    return test, np.sort(order[:samples]), np.sort(order[samples:])


def _check_leakage(source: Source, index: NDArray[np.int64], trained_on: set[bytes], name: str) -> None:
    """Raise if a held-out sample equals, pixel for pixel, a labelled training sample."""
    same = [place for place, content in zip(index, _hashes(source, index), strict=True) if content in trained_on]
    if same:
        (first,) = source.names(np.array(same[:1]))
        raise UserError(
            f"{name}: {len(same)} of {len(index)} held-out samples (the first is {first}) are labelled training "
            "samples of the run: remove them"
        )


def _trained_on(run: TrainedRun) -> set[bytes]:
    """Hashes of the labelled training samples; none where rows or texts are equal: then it proves nothing."""
    source = run.data.train
    may_repeat = source.kind == "table" or source.texts(np.arange(1)) is not None
    if may_repeat and len(set(_hashes(source, np.arange(len(source))))) < len(source):
        return set()
    return set(_hashes(source, run.labelled))


def _hashes(source: Source, index: NDArray[np.int64]) -> list[bytes]:
    """A hash of each sample's pixels, columns or characters."""
    if not len(index):
        return []
    if (texts := source.texts(index)) is not None:
        return [blake2b(text.encode(), digest_size=16).digest() for text in texts]
    parts = chunks(range(len(index)), source.pictures(index[:1]).shape[1:])
    return [
        blake2b(_one_channel(image).tobytes(), digest_size=16).digest()
        for part in parts
        for image in source.pictures(index[part.start : part.stop])
    ]


def _one_channel(image: Images) -> Images:
    """A grey image in one channel: an encoder makes the run read three channels of the same file."""
    grey = image.ndim == 3 and len(image) == 3 and (image == image[:1]).all()
    return image[:1] if grey else image
