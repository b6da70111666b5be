"""One run from beginning to end: data, split, network, training, figures."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities import rank_zero_only
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import CUSTOM, MACHINE, MORE_STEPS, RunConfig
from surelabel.config.settings import flatten
from surelabel.data.images.folder import folder_of
from surelabel.data.source import DataSet, skipped_of
from surelabel.data.tables.source import table_of
from surelabel.methods.base import Method
from surelabel.models.network import Network
from surelabel.training import build, build_data, evaluate
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.display import (
    PLAIN,
    Display,
    Watch,
    describe_found,
    describe_network,
    describe_pictures,
    describe_skipped,
    describe_table,
    duration,
    reading,
    show_result,
)
from surelabel.training.loop import AnyLoader, train
from surelabel.training.run_folder import RunFolder, environment
from surelabel.training.state import TrainState
from surelabel.training.step_time import TRAINING, seconds_per_step, steps_in
from surelabel.training.summary import summary
from surelabel.utils.distributed import World, explain_lost_process
from surelabel.utils.errors import UserError

# What may be another when a run goes on. That data which have moved are the same is checked when they are read.
MAY_CHANGE = {*MACHINE, "out", "data_dir"}


def fit(
    run: RunConfig,
    resume: bool = False,
    console: Console | None = None,
    labels_of: str | Path | None = None,
    own: Components = NO_COMPONENTS,
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
        return _fit(_begun(run, folder, console, own), folder, folder, True, console, own, watch=watch)
    folder.check_absent()
    if getattr(rank_zero_only, "rank", 0) == 0:  # of several processes, only the first writes
        folder.check_writable()
    run = build.resolve(own.named_in_config(run))
    return _fit(run, folder, None if labels_of is None else RunFolder(labels_of), False, console, own, minutes, watch)


def _fit(
    run: RunConfig, folder: RunFolder, labels_of: RunFolder | None, resume: bool, console: Console, own: Components,
    minutes: float | None = None, watch: Watch | None = None,
) -> RunFolder:  # fmt: skip
    torch.set_num_threads(run.threads or 1)
    with reading(console) as progress:
        data, labelled = build_data.load_data(run, own, progress)
    task = build_data.task_of(data)
    if labels_of is not None:
        labels_of.check_same_data(task, build_data.fingerprint(data))
        labelled = labels_of.labelled()
    seconds = None
    if run.processes == 1:
        show_found(data, labelled, console)
    if minutes is not None or (folder_of(data.train) and not resume and run.processes == 1 and not console.quiet):
        seconds = seconds_per_step(run, data, labelled, own)
        run = run if minutes is None else _as_long_as(minutes, run, seconds, console)
    method = build.build_method(run, len(data.train))
    network = build.build_network(run, task, own)
    if run.init is not None and not (resume and folder.has_checkpoint):
        build.start_from(network, run.init)
    stored, note = folder.stored_state() if resume else ({}, None)
    _try_views(run, data, labelled, own, stored.get("step", 0))
    fabric = build.build_fabric(run)
    fabric.launch()  # starts the other processes, which come here by themselves; from now on each has its own device
    console.quiet = console.quiet or fabric.global_rank > 0
    loader = replace(build.build_loader(run, data, labelled, own), world=World(fabric.global_rank, fabric.world_size))
    state = build.build_state(run, network, method)
    if stored:
        state.load_state_dict(stored, loader.world)
    del stored  # which is as large as the state
    if resume:
        console.print(note or f"Going on from step {state.step}", **PLAIN)
    if run.processes > 1:
        show_found(data, labelled, console)
    _show_run(run, data, labelled, network, seconds, console, run.data if own.data is None else data.name)
    if fabric.global_rank > 0:
        with explain_lost_process(folder.path), Display(run.steps, state.step, console) as display:
            train(run, method, loader, state, None, folder, display, fabric)
        return folder
    if not resume:
        columns = table_of(data.train)
        table = None if columns is None else columns.encoding.as_json()
        folder.create(run, task, build_data.fingerprint(data), labelled, table)
    with explain_lost_process(folder.path), folder.locked():
        folder.write_history(state.history)  # which a killed run may have left ahead of its checkpoint
        _train(run, method, loader, state, data, folder, console, fabric, watch)
    return folder


def _as_long_as(minutes: float, run: RunConfig, seconds: float, console: Console) -> RunConfig:
    """The run with as many steps as these minutes allow, at so many seconds a step."""
    run = replace(run, steps=steps_in(minutes, seconds))
    if run.steps * seconds > 60 * minutes:
        console.print(f"{minutes:g} minutes are too few to learn here: {run.steps} steps are the fewest", **PLAIN)
    return run


def _show_run(
    run: RunConfig,
    data: DataSet,
    labelled: NDArray[np.int64],
    network: Network,
    seconds: float | None,
    console: Console,
    name: str,
) -> None:
    """Say what is to be trained, and, where the seconds of a step are known, how long it will take."""
    parameters = sum(parameter.numel() for parameter in network.parameters())
    console.print(
        f"{run.method} on {name}: {len(labelled)} labels, {len(data.train)} "
        f"{'images' if len(data.train.shape) == 3 else 'samples'} in the pool, {len(data.classes)} classes; "
        f"{describe_network(run)} with {parameters:,} parameters, {run.steps} steps"
        + ("" if seconds is None else f", about {duration(run.steps * seconds / TRAINING)} here"),
        **PLAIN,
    )
    if run.holdout is not None and data.test is not None:
        console.print(f"Evaluated on {len(data.test)} labelled samples held back, not on any other test set", **PLAIN)


def _try_views(run: RunConfig, data: DataSet, labelled: NDArray[np.int64], own: Components, step: int) -> None:
    """What the views cannot be applied to should fail before there is a folder, or another process to fail too."""
    alone = run if run.processes == 1 else replace(run, device="cpu")
    replace(build.build_loader(alone, data, labelled, own), world=World(0, run.processes))(step)


def _train(
    run: RunConfig,
    method: Method,
    loader: AnyLoader,
    state: TrainState,
    data: DataSet,
    folder: RunFolder,
    console: Console,
    fabric: Fabric,
    watch: Watch | None,
) -> None:
    with Display(run.steps, state.step, console, watch) as display:
        train(run, method, loader, state, data.test, folder, display, fabric)
    if data.test is None:
        console.print("There is no test set, so no figures: the labelled part of the data was all used for training")
        return
    result = evaluate.final_metrics(state.evaluated, state.network, data.test, run, data.train)
    course = summary(state.history)
    folder.write_result(result | {"summary": asdict(course)})
    show_result(console, result, course)


def _begun(asked: RunConfig, folder: RunFolder, console: Console, own: Components) -> RunConfig:
    """The run in a folder, to go on with. It must be the one that is asked for; of another machine it is said."""
    run = folder.config
    _check_same_settings(asked, run, folder.path, own)
    here = environment()
    for name, before in folder.environment().items():
        if before not in (None, here[name]):  # older runs do not tell their processor
            console.print(
                f"The run was begun with {name} {before}, and goes on with {here[name]}: not bit for bit", **PLAIN
            )
    if asked.threads not in (None, run.threads):
        console.print(
            f"The run was begun with --threads {run.threads}, and goes on with {asked.threads}: sums may round "
            "differently, so it will not end bit for bit as it would have"
        )
        run = replace(run, threads=asked.threads)
    if asked.processes != run.processes:
        console.print(f"The run was begun with {run.processes} processes, and goes on with {asked.processes}")
    return replace(run, devices=asked.devices, nodes=asked.nodes, data_dir=asked.data_dir or run.data_dir)


def _check_same_settings(asked: RunConfig, stored: RunConfig, folder: Path, own: Components) -> None:
    """A run goes on with the settings that it began with, and on the same kind of device.

    What is left open to the machine is as the run has it; paths are compared as they lead today.
    """
    asked = replace(
        asked,
        device=stored.device if asked.device == "auto" else asked.device,
        precision=stored.precision if asked.precision == "auto" else asked.precision,
        compile=stored.compile if asked.compile is None else asked.compile,
    )
    here, before = (flatten(asdict(build.resolve(run))) for run in (own.named_in_config(asked), stored))
    for key, value in here.items():
        # A part that was given in Python, and now is not, is told of by whoever looks for it: how to give it.
        if key not in MAY_CHANGE and value != before[key] != CUSTOM:
            why = f" ({MORE_STEPS})" if key == "steps" else ""
            raise UserError(
                f"{folder} was begun with {key} {before[key]}, and is now asked for with {value}{why}. "
                f"Go on as it was with --resume {folder}, or choose another --out"
            )


def show_found(data: DataSet, labelled: NDArray[np.int64], console: Console) -> None:
    """Say what was found, what was left out of it, and why: nothing is passed over in silence."""
    columns = table_of(data.train)
    for note in () if columns is None else columns.notes:
        console.print(note, **PLAIN)
    pictures = folder_of(data.train)
    kind = "" if columns is None else describe_table(columns.encoding.names)
    kind = kind if pictures is None else describe_pictures(pictures.shape)
    if kind:
        labels = data.train.labels[labelled]
        console.print(describe_found(kind, len(data.train), labels, data.classes), **PLAIN)
    for skipped in dict.fromkeys(skipped_of(source) for source in (data.train, data.test) if source is not None):
        if skipped:
            console.print(describe_skipped(skipped), **PLAIN)
