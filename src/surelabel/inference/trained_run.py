"""A trained run: its config, data and network, each read on first use."""

import shutil
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import RunConfig
from surelabel.data.batch import Task
from surelabel.data.images.scaling import PLAIN
from surelabel.data.open import NAMED
from surelabel.data.open_like import Form, open_like
from surelabel.data.source import DataSet, Source, image_shape
from surelabel.inference.arrays import source_like
from surelabel.inference.prediction_sets import check_labels
from surelabel.inference.predictions import Predictions
from surelabel.models.encoders.base import Encoder
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
    from surelabel.inference.learners import Learners
    from surelabel.inference.suggest import Suggestion
    from surelabel.inference.trust import Trust
    from surelabel.inference.unnamed import Unnamed


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
    crossfit: int | None = None,
    sets: float | None = None,
) -> "TrainedRun":
    """Train a run and return it, with its data and network in memory.

    Args:
        config: for example from `recipe`
        resume: continue the run in the config's folder
        console: shows the progress; `Console(quiet=True)` shows nothing
        labels_of: the folder of another run on the same data, to use the same labelled samples
        components: data, backbone or views defined in Python
        minutes: how long to train, instead of the config's steps
        watch: called with each evaluation; an exception ends the run
        save: write the run to its folder; if false, nothing is written
        crossfit: train so many further runs, each without one fold of the labels, to calibrate the run and to tell how
            far to trust it; `minutes` are for all of them
        sets: refuse labels that are too few for sets of classes with this coverage, before the training
    """
    check = None if sets is None else partial(check_labels, coverage=sets)
    run = TrainedRun.of(
        training.fit(config, resume, console, labels_of, components, minutes, watch, save, crossfit, check)
    )
    if crossfit is not None:
        from surelabel.inference.crossfit import cross_fit

        cross_fit(run, crossfit, console or Console())
    return run


def load(folder: str | Path, components: Components = NO_COMPONENTS) -> "TrainedRun":
    """The run in a folder. Components used in training must be given again."""
    run = TrainedRun(RunFolder(folder), components)
    _ = run.config  # raises if the folder holds no run
    return run


class TrainedRun:
    """A run that was just trained, or loaded from its folder."""

    def __init__(self, folder: RunFolder | None, components: Components = NO_COMPONENTS) -> None:
        self.folder = folder
        self.components = components

    @classmethod
    def of(cls, trained: training.Trained) -> "TrainedRun":
        """The run with the results of training in memory."""
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
        """The run in messages: its folder, also where it was not saved."""
        return str(self.config.folder if self.folder is None else self.folder.path)

    @property
    def _stored(self) -> RunFolder:
        if self.folder is None:
            raise UserError("this run was not saved: call run.save(FOLDER) first")
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
        """Indices of the labelled samples in `data.train`."""
        return self._stored.labelled()

    @property
    def _config_here(self) -> RunConfig:
        """The config on the device that is there: the run may come from a larger machine."""
        return replace(self.config, device="auto")

    @cached_property
    def encoder(self) -> Encoder | None:
        """The network that describes samples, if there is one; raises a `UserError` if it has changed since."""
        encoder = build_data.encoder_of(self._config_here, self.components)
        if self.folder is not None:
            self.folder.check_same_encoder(encoder)
        return encoder

    @cached_property
    def data(self) -> DataSet:
        """The data that the run was trained on; raises a `UserError` if they have changed since."""
        _ = self.encoder  # first: another one would be told as other data
        data, _ = build_data.load_data(self._config_here, self.components)
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
        # The run may come from a larger machine.
        torch.set_num_threads(min(self.config.threads or 1, cores.available_cores()))
        network = build.build_network(self.config, self.task, self.components).to(devices.resolve_device("auto"))
        try:
            network.load_state_dict(self._stored.weights(weights))
        except RuntimeError as error:
            raise UserError(f"{self.path}: the weights do not fit config.yaml: {error}") from error
        network.temperature = self._stored.temperature
        return network.eval()

    def set_temperature(self, temperature: float) -> None:
        """Set the temperature of all predictions."""
        for network in (self.network, self.raw_network):
            network.temperature = temperature
        for made in ("test_prediction", "metrics", "pool_prediction", "learners", "trust"):
            vars(self).pop(made, None)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One row per evaluation."""
        return self._stored.history()

    @property
    def test(self) -> Source:
        """The test set; raises a `UserError` if there is none."""
        if self.data.test is None:
            raise UserError(f"{self.config.data} has no test set to evaluate on: give labelled data")
        return self.data.test

    @cached_property
    def test_prediction(self) -> Prediction:
        """The predictions for all labelled test samples, in order."""
        test = self.test  # first, so that missing data raise before the weights are read
        return evaluate.predict_test(self.network, test, self.config)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The metrics on the whole test set, computed from the weights."""
        return evaluate.final_metrics(self.test_prediction, self.raw_network, self.test, self.config, self.data.train)

    @cached_property
    def unlabelled(self) -> NDArray[np.int64]:
        """The samples of the pool without a known class; if all are known, those that the run used without label."""
        from surelabel.inference.suggest import unlabelled

        return unlabelled(self.data.train, self.labelled)

    @cached_property
    def pool_prediction(self) -> Prediction:
        """The predictions for the `unlabelled` samples."""
        return self._predict(self.data.train, self.unlabelled)

    def _predict(self, source: Source, index: NDArray[np.int64]) -> Prediction:
        return evaluate.predict(self.network, source, index, self.config.evaluation.batch)

    def predict(self, X: Any, data_dir: str | None = None, sets: float | None = None) -> Predictions:
        """Predict new samples: a path or the name of a data set, a `Source`, an array, or a data frame.

        A run of `sure` also makes `sets` of classes that hold the right one with this probability.
        """
        if sets is not None:
            from surelabel.inference.learners import label_scores

            label_scores(self).check_enough(sets)
        if isinstance(X, str | Path):
            source = self.open(X, data_dir)
        else:
            source = self.as_trained_on(source_like(X, self.form, self.task))
        self.check_form(source, str(X) if isinstance(X, str | Path) else "X")
        index = np.arange(len(source))
        prediction = self._predict(source, index)
        made = self._sets(source, index, prediction, sets)
        return Predictions(source.names(index), self.task.classes, prediction, source.notes, source.skipped, made)

    def predict_pool(self, sets: float | None = None) -> Predictions:
        """Predict the `unlabelled` samples of the pool; of `sure`, also `sets` of classes with this coverage."""
        source, index, prediction = self.data.train, self.unlabelled, self.pool_prediction
        made = self._sets(source, index, prediction, sets)
        return Predictions(source.names(index), self.task.classes, prediction, sets=made)

    def _sets(
        self, source: Source, index: NDArray[np.int64], prediction: Prediction, coverage: float | None
    ) -> NDArray[np.bool_] | None:
        if coverage is None:
            return None
        from surelabel.inference.learners import prediction_sets

        return prediction_sets(self, source, index, prediction.probs.argmax(-1).numpy(), coverage)

    @property
    def form(self) -> Form:
        """The form that new samples must have."""
        config, shape, scaling = self.config, None, PLAIN
        encoder, seen = self.encoder, None if self.encoder is None else self.encoder.preprocessing
        if seen is not None:
            shape, scaling = (3, seen.side, seen.side), seen.scaling
        elif encoder is not None and encoder.reads == "pictures":  # as they are
            shape = image_shape(self.data.train.pictures(np.arange(1)).shape[1:])
        if len(self.task.shape) == 3:
            shape = image_shape(self.task.shape)
        path = None if config.data in NAMED else Path(config.data_dir or ".", config.data)
        encoding = self.data.train.encoding if "data" in vars(self) else self._stored.table_encoding()
        return Form(self.name, self.task.classes, shape, scaling, seen is not None, encoding, config.label_column, path)

    def open(self, data: str | Path, data_dir: str | None = None) -> Source:
        """New samples in the form that the network takes."""
        return self.as_trained_on(open_like(str(data), self.form, data_dir))

    def as_trained_on(self, source: Source) -> Source:
        """The samples or, if the run has a frozen encoder, their features."""
        return build_data.as_seen(source, self.encoder, trained=self.config.train_encoder)

    def check_form(self, source: Source, name: str) -> None:
        """Raise unless the samples have the shape and dtype that the network takes."""
        task, dtype = self.task, str(source.samples(np.arange(1)).dtype)
        if (source.shape, dtype) != (task.shape, task.dtype):
            raise UserError(
                f"{name} has {_form(source.shape, dtype)}; the network of {self.name} was trained on "
                f"{_form(task.shape, task.dtype)}"
            )

    def evaluate(self, data: str | None = None, data_dir: str | None = None) -> dict[str, Any]:
        """The metrics on the run's test set or on other labelled data."""
        if data is None:
            return self.metrics
        from surelabel.inference.held_out import evaluate_on

        return evaluate_on(self, data, data_dir)[0]

    def calibrate(
        self, held_out: str, coverage: float = 0.9, data_dir: str | None = None, pictures: str | None = None
    ) -> tuple["Calibration", "CalibrationReport"]:
        """Fit temperature and prediction sets to held-out labels: labelled data, or "test:N"."""
        from surelabel.inference.held_out import calibrate

        return calibrate(self, held_out, coverage, data_dir, pictures)

    @cached_property
    def learners(self) -> "Learners":
        """What was predicted for labels unseen, of a run that left its labels out in turn: of `sure`, or one that was
        cross-fitted. Raises a `UserError` for another.
        """
        from surelabel.inference.learners import learners

        return learners(self)

    @cached_property
    def trust(self) -> "Trust":
        """How far the confidence can be trusted, of a run that has `learners`; raises a `UserError` for another."""
        from surelabel.inference.trust import trust

        return trust(self)

    @cached_property
    def unnamed(self) -> "Unnamed | None":
        """The samples of the pool that are of a kind that no label names, it seems; None if there are none."""
        from surelabel.inference.unnamed import find_unnamed

        return find_unnamed(self)

    def suggest(self, n: int = 20) -> list["Suggestion"]:
        """The n samples of the pool to label next, uncertain and diverse."""
        from surelabel.inference.suggest import suggestions

        return suggestions(self, n)

    def export(self, path: str | Path) -> float:
        """Write the network as an ONNX file; returns its largest difference from torch on real samples."""
        from surelabel.inference.onnx import export_onnx

        return export_onnx(self, Path(path))

    def report(self, path: str | Path) -> list[str]:
        """Write a report page; returns notes about what it cannot show."""
        from surelabel.report import write_report
        from surelabel.report.sections import sections

        return write_report([self], path, sections([self]))

    def save(self, folder: str | Path) -> None:
        """Write the run to a new folder, for `surelabel.load`."""
        target, data = RunFolder(folder), self.data
        target.create(
            self.config, self.task, build_data.fingerprint(data), self.labelled, data.train.encoding, self.encoder
        )
        target.save_tensors(AVERAGED, self.network.state_dict())
        target.save_tensors(RAW, self.raw_network.state_dict())
        target.write_history(self.history)
        if self.folder is not None and self.folder.crossfit is not None:
            for file in self.folder.path.glob("crossfit*.*"):
                shutil.copyfile(file, target.path / file.name)
        if data.test is not None:
            target.write_result(self.metrics)
        self.folder = self.folder or target


def _form(shape: tuple[int, ...], dtype: str) -> str:
    if len(shape) != 3:
        return f"samples of shape {shape}, {dtype}"
    channels, height, width = shape
    return f"images of {channels} channel{'s' if channels > 1 else ''}, {height}×{width} pixels, {dtype}"
