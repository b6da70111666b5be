"""One run from start to end: data, split, network, training, metrics."""

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric.utilities import rank_zero_only
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import RunConfig
from surelabel.config.settings import CONFIG
from surelabel.data.batch import Task
from surelabel.data.folds import parts
from surelabel.data.label_folds import folds_of
from surelabel.data.source import DataSet, Unlabelled
from surelabel.methods.base import Pool
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.training import build, build_data, evaluate
from surelabel.training.build_data import CheckLabels
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.display import (
    PLAIN,
    Display,
    Watch,
    describe_found,
    describe_guess,
    describe_network,
    describe_skipped,
    duration,
    reading,
    show_result,
)
from surelabel.training.memory import check_memory, check_settings
from surelabel.training.resume import stored_config
from surelabel.training.run_folder import RunFolder
from surelabel.training.session import train_and_save
from surelabel.training.state import TrainState
from surelabel.training.step_time import TRAINING, peak_memory, seconds_per_step, steps_in
from surelabel.training.summary import summary
from surelabel.utils.bounded import Malformed
from surelabel.utils.console import Screen
from surelabel.utils.distributed import World, explain_lost_process
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Trained:
    """A trained run in memory. `network` is the evaluated one; `folder` is None if nothing was written."""

    config: RunConfig
    components: Components
    folder: RunFolder | None
    task: Task
    data: DataSet
    labelled: NDArray[np.int64]
    network: Network
    raw_network: Network
    history: list[dict[str, Any]]
    metrics: dict[str, Any] | None = None  # on the whole test set, if there is one
    test_prediction: Prediction | None = None


def fit(
    config: RunConfig,
    resume: bool = False,
    console: Console | None = None,
    labels_of: str | Path | None = None,
    components: Components = NO_COMPONENTS,
    minutes: float | None = None,
    watch: Watch | None = None,
    save: bool = True,
    crossfit: int | None = None,
    check: CheckLabels | None = None,
) -> Trained:
    """Train, evaluate on the whole test set and, with `save`, write everything to the run's folder.

    `labels_of` is the folder of another run on the same data, whose labelled samples are used. `components` are user
    data, a backbone or views. `minutes` sets the number of steps from the time that a few take here. `watch` is called
    with each evaluation; an exception in it ends the run. `crossfit` says into how many folds the labels will be dealt,
    each of which another run is to leave out: the minutes are for all of them together. `check` may refuse the labels
    as soon as they are read.
    """
    console = console or Screen()
    if crossfit is not None:
        check_crossfit(config, crossfit, save)
    folder = RunFolder(config.folder) if save else None
    if resume:
        if folder is None:
            raise UserError("resume continues a run in its folder: leave out save=False")
        config = stored_config(config, folder, console, components)
        labels_from: RunFolder | None = folder
    else:
        if folder is not None:
            folder.check_absent()
            if getattr(rank_zero_only, "rank", 0) == 0:  # only rank 0 writes
                folder.check_writable()
        config = build.resolve(components.named_in_config(config))
        labels_from = None if labels_of is None else RunFolder(labels_of)
    check_settings(config)
    torch.set_num_threads(config.threads or 1)
    encoder = labels_from.fitted_encoder() if resume and labels_from is not None else None
    encoder = encoder or build_data.encoder_of(config, components)
    if resume and folder is not None:
        folder.check_same_encoder(encoder)
    with reading(console) as progress:
        data, labelled = build_data.load_data(config, components, progress, check, encoder)
    if labels_from is not None:
        labels_from.check_same_data(build_data.task_of(data), build_data.fingerprint(data), data.train.labels)
        labelled = labels_from.labelled()
    runs = 1 if crossfit is None else 1 + len(parts(fold_of_labels(config, data, labelled, crossfit)))
    return _train(config, folder, data, labelled, resume, console, components, minutes, watch, runs)


def check_crossfit(config: RunConfig, folds: int, save: bool = True) -> None:
    """Raise where a run cannot be cross-fitted."""
    reasons = {
        f"there must be at least two folds, not {folds}": folds < 2,
        "sure has left each label out already": config.method == "sure",
        f"it is for one process, and this run has {config.processes}: set devices and nodes to 1": config.processes > 1,
        "it tests on each label, and holdout on some: they do not go together": config.holdout is not None,
        "the run in init may have learnt the labels that are left out": config.init is not None,
        "it needs the run's folder: leave out save=False": not save,
    }
    for reason, holds in reasons.items():
        if holds:
            raise UserError(f"crossfit: {reason}, or leave crossfit out")


def fold_of_labels(config: RunConfig, data: DataSet, labelled: NDArray[np.int64], folds: int) -> NDArray[np.int64]:
    """The fold [n] of each label of a run; raises a `UserError` where none can be left out."""
    fold = folds_of(data.train, labelled, folds, config.seed)
    if not len(parts(fold)):
        raise UserError(
            "no label can be left out, as each class has only one (near-duplicates count as one, suggested ones not "
            "at all): leave cross-fitting out, or label more"
        )
    return fold


def fit_without(
    config: RunConfig,
    folder: RunFolder,
    data: DataSet,
    labelled: NDArray[np.int64],
    left_out: NDArray[np.int64],
    components: Components,
) -> Network:
    """Train a run without these labels, or continue it, and return what is evaluated of it.

    The samples stay in its pool, where nothing tells their classes. It is not tested, and shows nothing.
    """
    hidden = replace(data, train=Unlabelled(data.train, left_out), test=None, normalisation=(data.offset, data.scale))
    config = replace(config, out=str(folder.path))
    begun = (folder.path / CONFIG).exists()
    kept = np.setdiff1d(labelled, left_out)
    return _train(config, folder, hidden, kept, begun, Console(quiet=True), components).network


def _train(
    config: RunConfig, folder: RunFolder | None, data: DataSet, labelled: NDArray[np.int64], resume: bool,
    console: Console, components: Components, minutes: float | None = None, watch: Watch | None = None, runs: int = 1,
) -> Trained:  # fmt: skip
    """Train on data in memory; `minutes` are for so many `runs` together."""
    task = build_data.task_of(data)
    check_memory(config, task)
    seconds = None
    if config.processes == 1:
        _show_found(config, data, labelled, console)
    # Of several processes, each has its device only after the launch.
    here = config if config.processes == 1 else replace(config, device="cpu")
    loader = build.build_loader(here, data, labelled, components, World(0, config.processes))
    is_told = (
        (data.train.description or runs > 1 or config.train_encoder)
        and not resume
        and config.processes == 1
        and not console.quiet
    )
    if minutes is not None or is_told:
        seconds = seconds_per_step(config, data, loader, components)
        config = config if minutes is None else _as_long_as(minutes / runs, config, seconds, console)
    method = build.build_method(config, len(data.train))
    network = build.build_network(config, task, components)
    if config.init is not None and not (resume and folder is not None and folder.has_checkpoint):
        build.start_from(network, config.init)
    stored, note = folder.stored_state() if resume and folder is not None else ({}, None)
    if seconds is None:
        loader(stored.get("step", 0))  # unsuitable views fail before the folder and the other ranks exist
    fabric = build.build_fabric(config)
    fabric.launch()  # starts the other ranks, which run up to here too; from now on each has its device
    console.quiet = console.quiet or fabric.global_rank > 0
    if config.processes > 1:
        loader = build.build_loader(config, data, labelled, components, World(fabric.global_rank, fabric.world_size))
    method.before_training(network, loader)
    state = build.build_state(config, network, method, Pool.of(loader))
    if stored:
        _continue(state, stored, loader.world, config)
    del stored  # as large as the state
    if resume:
        console.print(note or f"Resuming at step {state.step}", **PLAIN)
    if config.processes > 1:
        _show_found(config, data, labelled, console)
    name = config.data if components.data is None else data.name
    _show_run(config, data, labelled, network, seconds, console, name, runs)
    trained = Trained(
        config, components, folder, task, data, labelled, state.evaluated, state.network, state.history
    )  # fmt: skip
    written = folder if fabric.global_rank == 0 else None
    if written is not None and not resume:
        train = data.train
        encoder = build_data.encoder_of(config, components) if config.train_encoder else train.encoder
        written.create(config, task, build_data.fingerprint(data), labelled, train.encoding, encoder)
    with explain_lost_process(config.folder), written.locked() if written is not None else nullcontext():
        if written is not None:
            written.write_history(state.history)  # a killed run may have left it ahead of its checkpoint
        with Display(config.steps, state.step, console, watch) as display:
            train_and_save(config, method, loader, state, data.test, folder, display, fabric)
        for one in state.networks:
            one.temperature = 1.0 if folder is None else folder.temperature
        return _tested(trained, console, loader.world)


def _continue(state: TrainState, stored: dict[str, Any], world: World, config: RunConfig) -> None:
    """Load what a checkpoint holds."""
    try:
        state.load_state_dict(stored, world)
    except Malformed as error:
        raise UserError(
            f"the checkpoint in {config.folder} is not of this run: {error}. Remove the folder and start again"
        ) from error


def _tested(trained: Trained, console: Console, world: World) -> Trained:
    """Compute and, on rank 0, show and write the metrics on the whole test set."""
    test = trained.data.test
    if test is None:
        if not trained.config.leaves_labels_out:  # else these labels tell
            console.print("No test set, so no metrics: all labelled samples were used for training")
        return trained
    prediction = evaluate.predict_test(trained.network, test, trained.config, world)
    found = evaluate.final_metrics(prediction, trained.raw_network, test, trained.config, trained.data.train, world)
    if world.rank > 0:
        return trained
    evaluations = summary(trained.history)
    found["summary"] = asdict(evaluations)
    if trained.folder is not None:
        trained.folder.write_result(found)
    show_result(console, found, evaluations)
    return replace(trained, metrics=found, test_prediction=prediction)


def _as_long_as(minutes: float, config: RunConfig, seconds: float, console: Console) -> RunConfig:
    """The config with as many steps as fit into these minutes, at this many seconds per step."""
    steps = steps_in(minutes, seconds)
    if steps * seconds > 60 * minutes:
        console.print(f"{minutes:g} minutes are too short here: training for the minimum of {steps} steps", **PLAIN)
    return replace(config, steps=steps)


def _show_run(
    config: RunConfig,
    data: DataSet,
    labelled: NDArray[np.int64],
    network: Network,
    seconds: float | None,
    console: Console,
    name: str,
    runs: int,
) -> None:
    """Show what will be trained and, if the time of a step is known, how long it and further `runs` will take."""
    parameters = sum(parameter.numel() for parameter in network.parameters())
    console.print(
        f"{config.method} on {name}: {len(labelled)} labels, {len(data.train)} "
        f"{'images' if len(data.train.shape) == 3 else 'samples'} in the pool, {len(data.classes)} classes; "
        f"{describe_network(config)} with {parameters:,} parameters, {config.steps} steps"
        + ("" if runs == 1 else f"; trains {runs} times")
        + ("" if seconds is None else f", about {duration(runs * config.steps * seconds / TRAINING)} here"),
        **PLAIN,
    )
    if config.train_encoder and seconds is not None:
        console.print(
            f"A step takes {seconds:.2g} s, and at most {peak_memory(config.device):.1f} GB of memory", **PLAIN
        )
    if config.holdout is not None and data.test is not None:
        console.print(f"Evaluated on {len(data.test)} held-out labelled samples instead of a test set", **PLAIN)


def _show_found(config: RunConfig, data: DataSet, labelled: NDArray[np.int64], console: Console) -> None:
    """Show which samples were found, which were skipped and why, and how the labels seem to have been drawn."""
    for note in data.train.notes:
        console.print(note, **PLAIN)
    if data.train.description:
        labels = data.train.labels[labelled]
        console.print(describe_found(data.train.description, len(data.train), labels, data.classes), **PLAIN)
    random = labelled[data.train.at_random(labelled)]
    if config.leaves_labels_out and config.drawn == "auto" and len(random):
        console.print(describe_guess(data.train.labels[random]), **PLAIN)
    for skipped in dict.fromkeys(source.skipped for source in (data.train, data.test) if source is not None):
        if skipped:
            console.print(describe_skipped(skipped), **PLAIN)
