"""A trained run: its config, data and network, each read when first asked for and never twice."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import RunConfig
from surelabel.data.batch import Task
from surelabel.data.open import NAMED
from surelabel.data.open_like import Form, open_like
from surelabel.data.source import DataSet, Source, image_shape
from surelabel.inference.arrays import source_like
from surelabel.inference.predictions import Predictions
from surelabel.models.frozen_features import encoded
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.training import build, build_data, evaluate
from surelabel.training import fit as training
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.display import Watch
from surelabel.training.run_folder import AVERAGED, RAW, RunFolder
from surelabel.utils import cpu as cores
from surelabel.utils import devices
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration, CalibrationReport
    from surelabel.inference.suggest import Suggestion


def fit(
    config: RunConfig,
    *,
    resume: bool = False,
    console: Console | None = None,
    labels_of: str | Path | None = None,
    components: Components = NO_COMPONENTS,
    minutes: float | None = None,
    watch: Watch | None = None,
    save: bool = True,
) -> "TrainedRun":
    """Train a run, and keep what was read and learnt for all that follows.

    Args:
        config: of the run, as from `recipe`
        resume: continue the run in the config's folder
        console: where progress is shown; `Console(quiet=True)` for nowhere
        labels_of: the folder of another run on the same data, whose labelled samples are used
        components: data, a backbone or views that are given in Python
        minutes: how long to train, instead of the config's steps
        watch: called with each evaluation; what it raises ends the run
        save: write the run to its folder; without, nothing is written
    """
    return TrainedRun.of(training.fit(config, resume, console, labels_of, components, minutes, watch, save))


def load(folder: str | Path, components: Components = NO_COMPONENTS) -> "TrainedRun":
    """The run in a folder. What was given in Python when it was trained has to be given again."""
    run = TrainedRun(RunFolder(folder), components)
    _ = run.config  # a folder that holds no run is refused here
    return run


class TrainedRun:
    """A run that was trained now, or loaded from its folder."""

    def __init__(self, folder: RunFolder | None, components: Components = NO_COMPONENTS) -> None:
        self.folder = folder
        self.components = components

    @classmethod
    def of(cls, trained: training.Trained) -> "TrainedRun":
        """The run that holds what training left in memory."""
        run = cls(trained.folder, trained.components)
        run.config, run.task = trained.config, trained.task
        run.data, run.labelled = trained.data, trained.labelled
        run.network, run.raw_network = trained.network.eval(), trained.raw_network.eval()
        run.history = trained.history
        if trained.metrics is not None and trained.test_prediction is not None:
            run.metrics, run.test_prediction = trained.metrics, trained.test_prediction
        return run

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._stored.path

    @property
    def name(self) -> str:
        """What messages call the run."""
        return str(self.config.folder if self.folder is None else self.folder.path)

    @property
    def _stored(self) -> RunFolder:
        if self.folder is None:
            raise UserError("this run was not saved: write it to a folder by run.save(FOLDER)")
        return self.folder

    @cached_property
    def config(self) -> RunConfig:
        return self._stored.config

    @cached_property
    def task(self) -> Task:
        """Shape, classes and normalisation of the samples that the network takes."""
        return self._stored.task()

    @cached_property
    def labelled(self) -> NDArray[np.int64]:
        """The training samples whose labels were used, as indices of `data.train`."""
        return self._stored.labelled()

    @cached_property
    def data(self) -> DataSet:
        """The data that the run was trained on, or a `UserError` where they have changed since."""
        data, _ = build_data.load_data(self.config, self.components)
        self._stored.check_same_data(build_data.task_of(data), build_data.fingerprint(data))
        return data

    @cached_property
    def network(self) -> Network:
        """The network with the weights that are evaluated."""
        return self._load_network(AVERAGED)

    @cached_property
    def raw_network(self) -> Network:
        """The network with the weights of the last step."""
        return self._load_network(RAW)

    def _load_network(self, weights: str) -> Network:
        # It may have been trained on a larger machine.
        torch.set_num_threads(min(self.config.threads or 1, cores.available_cores()))
        network = build.build_network(self.config, self.task, self.components).to(devices.resolve_device("auto"))
        try:
            network.load_state_dict(self._stored.weights(weights))
        except RuntimeError as error:
            raise UserError(f"{self.path}: the weights do not fit the config beside them: {error}") from error
        return network.eval()

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One row per evaluation."""
        return self._stored.history()

    @property
    def test(self) -> Source:
        """The labelled test samples, or a `UserError` where there are none."""
        if self.data.test is None:
            raise UserError(f"{self.config.data} has no test set to evaluate on: give data with labels")
        return self.data.test

    @cached_property
    def test_prediction(self) -> Prediction:
        """The prediction of all labelled test samples, in order."""
        test = self.test  # data that are missing are told of before weights are read
        return evaluate.predict_test(self.network, test, self.config)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The metrics on the whole test set, computed from the weights."""
        return evaluate.final_metrics(self.test_prediction, self.raw_network, self.test, self.config, self.data.train)

    @cached_property
    def unlabelled(self) -> NDArray[np.int64]:
        """The samples of the pool that the run learnt no label of, and whose class is not known from elsewhere.

        Where every class is known, as in a published data set, those beyond the run's labels.
        """
        from surelabel.inference.suggest import unlabelled

        return unlabelled(self.data.train, self.labelled)

    @cached_property
    def pool_prediction(self) -> Prediction:
        """The prediction of the `unlabelled` samples."""
        return self._predict(self.data.train, self.unlabelled)

    def _predict(self, source: Source, index: NDArray[np.int64] | None = None) -> Prediction:
        everyone = np.arange(len(source)) if index is None else index
        return evaluate.predict(self.network, source, everyone, self.config.evaluation.batch)

    def predict(self, X: Any, data_dir: str | None = None) -> Predictions:
        """Predict new samples: a path or the name of a data set, a `Source`, an array, or a data frame."""
        source = self.open(X, data_dir) if isinstance(X, str | Path) else source_like(X, self.form, self.task)
        self.check_form(source, str(X) if isinstance(X, str | Path) else "X")
        everyone = np.arange(len(source))
        prediction = self._predict(source)
        return Predictions(source.names(everyone), self.task.classes, prediction, source.notes, source.skipped)

    def predict_pool(self) -> Predictions:
        """The predictions of the `unlabelled` samples of the run's own data."""
        train = self.data.train
        return Predictions(train.names(self.unlabelled), self.task.classes, self.pool_prediction)

    @property
    def form(self) -> Form:
        """What new samples have to be like."""
        config = self.config
        own = None if config.data in NAMED else Path(config.data_dir or ".", config.data)
        encoding = self._stored.table_encoding() if "data" not in vars(self) else self.data.train.encoding
        return Form(self.name, self.task.classes, self._picture_shape, encoding, config.label_column, own)

    @property
    def _picture_shape(self) -> tuple[int, int, int] | None:
        if self.config.encoder == "none":
            return image_shape(self.task.shape) if len(self.task.shape) == 3 else None
        assert self.config.image_size is not None  # which resolving a config with an encoder sees to
        return 3, self.config.image_size, self.config.image_size

    def open(self, data: str | Path, data_dir: str | None = None) -> Source:
        """New samples in the form that the network takes."""
        return self.as_trained_on(open_like(str(data), self.form, data_dir))

    def as_trained_on(self, source: Source) -> Source:
        """The samples themselves or, where the run has a frozen encoder, their features."""
        return source if self.config.encoder == "none" else encoded(source)

    def check_form(self, source: Source, name: str) -> None:
        """Raise where samples are not of the shape and type that the run's network takes."""
        task, dtype = self.task, str(source.samples(np.arange(1)).dtype)
        if (source.shape, dtype) != (task.shape, task.dtype):
            raise UserError(
                f"{name} has {_form(source.shape, dtype)}; the network of {self.name} was trained on "
                f"{_form(task.shape, task.dtype)}"
            )

    def evaluate(self, data: str | None = None, data_dir: str | None = None) -> dict[str, Any]:
        """The metrics on the run's test set or, given `data`, on other samples with labels."""
        if data is None:
            return self.metrics
        from surelabel.inference.held_out import evaluate_on

        return evaluate_on(self, data, data_dir)[0]

    def calibrate(
        self, held_out: str, coverage: float = 0.9, data_dir: str | None = None, pictures: str | None = None
    ) -> tuple["Calibration", "CalibrationReport"]:
        """Fit a temperature and sets of classes to held-out labels: data with labels, or "test:N"."""
        from surelabel.inference.held_out import calibrate

        return calibrate(self, held_out, coverage, data_dir, pictures)

    def suggest(self, n: int = 20) -> list["Suggestion"]:
        """The n samples of the pool to label next: uncertain ones that differ."""
        from surelabel.inference.suggest import suggestions

        return suggestions(self, n)

    def export(self, path: str | Path) -> float:
        """Write the network as an ONNX file; returns its largest difference from torch on real samples."""
        from surelabel.inference.onnx import export_onnx

        return export_onnx(self, Path(path))

    def report(self, path: str | Path) -> list[str]:
        """Write a page about the run; what could not be shown comes back, one note each."""
        from surelabel.report import write_report
        from surelabel.report.sections import sections

        return write_report([self], path, sections([self]))

    def save(self, folder: str | Path) -> None:
        """Write the run to a new folder, from which `surelabel.load` reads it."""
        target = RunFolder(folder)
        config, fingerprint = self.config, build_data.fingerprint(self.data)
        target.create(config, self.task, fingerprint, self.labelled, self.data.train.encoding)
        target.save_weights(AVERAGED, self.network.state_dict())
        target.save_weights(RAW, self.raw_network.state_dict())
        target.write_history(self.history)
        if self.data.test is not None:
            target.write_result(self.metrics)
        self.folder = self.folder or target


def _form(shape: tuple[int, ...], dtype: str) -> str:
    if len(shape) != 3:
        return f"samples of shape {shape}, {dtype}"
    channels, height, width = shape
    return f"images of {channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
