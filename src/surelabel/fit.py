"""One run from beginning to end: data, split, network, training, figures."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from rich.console import Console

from surelabel import build, build_data, devices, evaluate
from surelabel.bound import Bound, bound
from surelabel.config import Run
from surelabel.data.folder import files_of
from surelabel.data.source import DataSet, Source, skipped_of
from surelabel.data.table import table_of
from surelabel.display import (
    PLAIN,
    Display,
    Watch,
    duration,
    found_in_words,
    network_in_words,
    reading,
    show_result,
    skipped_in_words,
)
from surelabel.errors import UserError
from surelabel.methods import Method
from surelabel.network import Network
from surelabel.own import NOTHING, Own
from surelabel.pace import TRAINING, seconds_per_step, steps_in
from surelabel.protocol import summary
from surelabel.runfolder import AVERAGED, RAW, RunFolder
from surelabel.share import Share, losses_told
from surelabel.state import TrainState
from surelabel.train import AnyLoader, train


def fit(
    run: Run,
    resume: bool = False,
    console: Console | None = None,
    labels_of: str | Path | None = None,
    own: Own = NOTHING,
    minutes: float | None = None,
    watch: Watch | None = None,
) -> RunFolder:
    """Train, evaluate on the whole test set, and leave all of it in the run's folder.

    `labels_of` is another run's folder, whose labelled samples are used; the data must be the same. `own` gives data,
    a backbone or views that have no name. `minutes` sets the run's steps by how long some take here. `watch` is called
    with each evaluation; what it raises ends the run.
    """
    console = console or Console()
    folder = RunFolder(run.folder)
    if resume:
        return _fit(_stored(run, folder, console), folder, folder, True, console, own, watch=watch)
    folder.refuse_existing()
    run = build.resolve(own.named_in(run))
    return _fit(run, folder, None if labels_of is None else RunFolder(labels_of), False, console, own, minutes, watch)


def _fit(
    run: Run, folder: RunFolder, labels_of: RunFolder | None, resume: bool, console: Console, own: Own,
    minutes: float | None = None, watch: Watch | None = None,
) -> RunFolder:  # fmt: skip
    torch.set_num_threads(run.threads or 1)
    with reading(console) as progress:
        data, labelled = build_data.load_data(run, own, progress)
    method = build.build_method(run, len(data.train))
    task = build_data.task_of(data)
    if labels_of is not None:
        labels_of.refuse_other_data(task, build_data.fingerprint(data))
        labelled = labels_of.labelled()
    seconds = None
    if run.processes == 1:
        show_found(data, labelled, console)
    if minutes is not None or (files_of(data.train) and not resume and run.processes == 1 and not console.quiet):
        seconds = seconds_per_step(run, data, labelled, own)
    if minutes is not None and seconds is not None:
        run = replace(run, steps=steps_in(minutes, seconds))
        if run.steps * seconds > 60 * minutes:
            console.print(f"{minutes:g} minutes are too few to learn here: {run.steps} steps are the fewest", **PLAIN)
        method = build.build_method(run, len(data.train))
    network = build.build_network(run, task, own)
    if run.init is not None and not (resume and folder.has_checkpoint):
        start_from(network, run.init)
    stored, note = folder.stored_state() if resume else ({}, None)
    _try_views(run, data, labelled, own, stored.get("step", 0))
    fabric = build.build_fabric(run)
    fabric.launch()  # starts the other processes, which come here by themselves; from now on each has its own device
    console.quiet = console.quiet or fabric.global_rank > 0
    loader = replace(build.build_loader(run, data, labelled, own), share=Share(fabric.global_rank, fabric.world_size))
    state = build.build_state(run, network, method)
    if stored:
        state.load_state_dict(stored, loader.share)
    del stored  # which is as large as the state
    if resume:
        console.print(note or f"Going on from step {state.step}", **PLAIN)
    if run.processes > 1:
        show_found(data, labelled, console)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    console.print(
        f"{run.method} on {run.data if own.data is None else data.name}: {len(labelled)} labels, {len(data.train)} "
        f"{'images' if len(task.shape) == 3 else 'samples'} in the pool, {len(data.classes)} classes; "
        f"{network_in_words(run.network)} with {parameters:,} parameters, {run.steps} steps"
        + ("" if seconds is None else f", about {duration(run.steps * seconds / TRAINING)} here"),
        **PLAIN,
    )
    if run.holdout is not None and data.test is not None:
        console.print(f"Evaluated on {len(data.test)} labelled samples held back, not on any other test set", **PLAIN)
    if fabric.global_rank > 0:
        with losses_told(folder.path), Display(run.steps, state.step, console) as display:
            train(run, method, loader, state, None, folder, display, fabric)
        return folder
    if not resume:
        columns = table_of(data.train)
        table = None if columns is None else columns.encoding.as_json()
        folder.create(run, task, build_data.fingerprint(data), labelled, table)
    with losses_told(folder.path), folder.locked():
        folder.write_history(state.history)  # which a killed run may have left ahead of its checkpoint
        _train(run, method, loader, state, data, folder, console, fabric, watch)
    return folder


def _try_views(run: Run, data: DataSet, labelled: NDArray[np.int64], own: Own, step: int) -> None:
    """What the views cannot be applied to should fail before there is a folder, or another process to fail too."""
    alone = run if run.processes == 1 else replace(run, device="cpu")
    replace(build.build_loader(alone, data, labelled, own), share=Share(0, run.processes))(step)


def _train(
    run: Run, method: Method, loader: AnyLoader, state: TrainState, data: DataSet, folder: RunFolder, console: Console,
    fabric: Fabric, watch: Watch | None,
) -> None:  # fmt: skip
    with Display(run.steps, state.step, console, watch) as display:
        train(run, method, loader, state, data.test, folder, display, fabric)
    if data.test is None:
        console.print("There is no test set, so no figures: the labelled part of the data was all used for training")
        return
    result = evaluate.result(state.evaluated, state.network, data.test, run, data.train)
    course = summary(state.history)
    folder.write_result(result | {"summary": asdict(course)})
    show_result(console, result, course)


def _stored(asked: Run, folder: RunFolder, console: Console) -> Run:
    """The run in a folder. Its device must be here; another torch, or another number of threads, is said."""
    run = folder.run()
    devices.usable(run.device)
    before = folder.torch_version()
    if before != torch.__version__:
        console.print(f"The run was begun with torch {before}, and goes on with {torch.__version__}: not bit for bit")
    if asked.threads not in (None, run.threads):
        console.print(
            f"The run was begun with --threads {run.threads}, and goes on with {asked.threads}: sums may round "
            "differently, so it will not end bit for bit as it would have"
        )
        run = replace(run, threads=asked.threads)
    if asked.processes != run.processes:
        console.print(f"The run was begun with {run.processes} processes, and goes on with {asked.processes}")
    # Data may have moved; that they are the same is checked when they are read.
    return replace(run, devices=asked.devices, nodes=asked.nodes, data_dir=asked.data_dir or run.data_dir)


def show_found(data: DataSet, labelled: NDArray[np.int64], console: Console) -> None:
    """Say what was found, what was left out of it, and why: nothing is passed over in silence."""
    columns = table_of(data.train)
    for note in () if columns is None else columns.notes:
        console.print(note, **PLAIN)
    pictures = files_of(data.train)
    if pictures is not None:
        labels = data.train.labels[labelled]
        console.print(found_in_words(pictures.shape, len(data.train), labels, data.classes), **PLAIN)
    for skipped in dict.fromkeys(skipped_of(source) for source in (data.train, data.test) if source is not None):
        if skipped:
            console.print(skipped_in_words(skipped), **PLAIN)


def load_network(folder: RunFolder, weights: str = AVERAGED, own: Own = NOTHING) -> Network:
    """The network of a run with its averaged weights, or its `RAW` ones."""
    run = folder.run()
    torch.set_num_threads(run.threads or 1)
    network = build.build_network(run, folder.task(), own).to(devices.usable("auto"))
    try:
        network.load_state_dict(folder.weights(weights))
    except RuntimeError as error:
        raise UserError(f"{folder.path}: the weights do not fit the configuration beside them: {error}") from error
    return network.eval()


def start_from(network: Network, path: str | Path) -> None:
    """Give the network the evaluated backbone of another run."""
    stored = RunFolder(path).weights()
    backbone = {name.removeprefix("backbone."): stored[name] for name in stored if name.startswith("backbone.")}
    try:
        network.backbone.load_state_dict(backbone)
    except RuntimeError as error:
        raise UserError(f"init {path}: that run's network is another one than network.* describes: {error}") from error


def evaluate_run(path: str | Path, own: Own = NOTHING) -> dict[str, Any]:
    """The figures of a run on its whole test set, computed anew from its weights."""
    folder = RunFolder(path)
    data, test = _tested(folder, own)
    network, raw = load_network(folder, own=own), load_network(folder, RAW, own)
    return evaluate.result(network, raw, test, folder.run(), data.train)


def bound_of_run(path: str | Path, variance: float, delta: float, own: Own = NOTHING) -> Bound:
    """The paper's generalisation bound for the averaged weights of a run."""
    folder = RunFolder(path)
    data, test = _tested(folder, own)
    return bound(load_network(folder, own=own), data.train, folder.labelled(), test, variance, delta)


def data_of(folder: RunFolder, own: Own = NOTHING) -> DataSet:
    """The data that a run was made with, or a `UserError` where they have changed since."""
    data, _ = build_data.load_data(folder.run(), own)
    folder.refuse_other_data(build_data.task_of(data), build_data.fingerprint(data))
    return data


def _tested(folder: RunFolder, own: Own) -> tuple[DataSet, Source]:
    """The data that a run was made with, and its test set."""
    data = data_of(folder, own)
    if data.test is None:
        raise UserError(f"{folder.run().data} has no test set to evaluate on")
    return data, data.test
