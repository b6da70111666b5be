"""One run from beginning to end: data, split, network, training, figures."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console

from surelabel import build, datasets, evaluate
from surelabel.bound import Bound, bound
from surelabel.config import Run
from surelabel.data.folder import FolderSource
from surelabel.data.source import DataSet, Source
from surelabel.display import Display, Watch, show_result, skipped_in_words
from surelabel.errors import UserError
from surelabel.methods import Method
from surelabel.network import Network
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
    watch: Watch | None = None,
) -> RunFolder:
    """Train, evaluate on the whole test set, and leave all of it in the run's folder.

    `labels_of` is another run's folder, whose labelled samples are used; the data must be the same. `watch` is called
    with each evaluation; what it raises ends the run.
    """
    console = console or Console()
    folder = RunFolder(run.folder)
    if resume:
        return _fit(_stored(run, folder, console), folder, folder, True, console, watch)
    folder.refuse_existing()
    return _fit(build.resolve(run), folder, None if labels_of is None else RunFolder(labels_of), False, console, watch)


def _fit(
    run: Run, folder: RunFolder, labels_of: RunFolder | None, resume: bool, console: Console, watch: Watch | None
) -> RunFolder:
    torch.set_num_threads(run.threads or 1)
    data = datasets.load(run.data, run.data_dir)
    method = build.build_method(run, len(data.train))
    task = build.task_of(data)
    if labels_of is not None:
        labels_of.refuse_other_data(task, build.fingerprint(data))
    labelled = build.build_split(run, data) if labels_of is None else labels_of.labelled()
    data, taught = build.hold_back(run, data, labelled)
    network = build.build_network(run, task)
    if run.init is not None and not (resume and folder.has_checkpoint):
        start_from(network, run.init)
    state = build.build_state(run, network, method)
    if resume:
        note = folder.load(state)
        console.print(note or f"Going on from step {state.step}", highlight=False, markup=False, soft_wrap=True)
    loader = build.build_loader(run, data, taught)
    loader(state.step)  # what the views cannot be applied to should fail before there is a folder
    fabric = build.build_fabric(run)
    fabric.launch()  # starts the other processes, which come here by themselves
    loader = replace(loader, share=Share(fabric.global_rank, fabric.world_size))
    console.quiet = console.quiet or fabric.global_rank > 0
    show_found(data, console)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    console.print(
        f"{run.method} on {run.data}: {len(taught)} labels, {len(data.train)} images in the pool, "
        f"{len(data.classes)} classes; {run.network.name} with {parameters:,} parameters, {run.steps} steps",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if len(taught) < len(labelled):
        console.print(f"Evaluated on {len(labelled) - len(taught)} labelled samples held back, not on the test set")
    if fabric.global_rank > 0:
        with losses_told(folder.path), Display(run.steps, state.step, console) as display:
            train(run, method, loader, state, None, folder, display, fabric)
        return folder
    if not resume:
        folder.create(run, task, build.fingerprint(data), labelled)
    with losses_told(folder.path), folder.locked():
        folder.write_history(state.history)  # which a killed run may have left ahead of its checkpoint
        _train(run, method, loader, state, data, folder, console, fabric, watch)
    return folder


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
    result["summary"] = asdict(summary(state.history))
    folder.write_result(result)
    show_result(console, result, summary(state.history))


def _stored(asked: Run, folder: RunFolder, console: Console) -> Run:
    """The run in a folder. Its device must be here; another torch, or another number of threads, is said."""
    run = folder.run()
    build.usable(run.device)
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
    return replace(run, devices=asked.devices, nodes=asked.nodes)


def show_found(data: DataSet, console: Console) -> None:
    """Say what was left out of a folder, and why: nothing is passed over in silence."""
    for source in (data.train, data.test):
        skipped = source.skipped if isinstance(source, FolderSource) else ()
        if skipped:
            console.print(skipped_in_words(skipped), markup=False, soft_wrap=True)


def load_network(folder: RunFolder, weights: str = AVERAGED) -> Network:
    """The network of a run with its averaged weights, or its `RAW` ones."""
    run = folder.run()
    torch.set_num_threads(run.threads or 1)
    network = build.build_network(run, folder.task()).to(build.usable("auto"))
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


def evaluate_run(path: str | Path) -> dict[str, Any]:
    """The figures of a run on its whole test set, computed anew from its weights."""
    folder = RunFolder(path)
    data, test = _data_of(folder)
    return evaluate.result(load_network(folder), load_network(folder, RAW), test, folder.run(), data.train)


def bound_of_run(path: str | Path, variance: float, delta: float) -> Bound:
    """The paper's generalisation bound for the averaged weights of a run."""
    folder = RunFolder(path)
    data, test = _data_of(folder)
    return bound(load_network(folder), data.train, folder.labelled(), test, variance, delta)


def _data_of(folder: RunFolder) -> tuple[DataSet, Source]:
    """The data that a run was made with, and its test set."""
    run = folder.run()
    data = datasets.load(run.data, run.data_dir)
    if data.test is None:
        raise UserError(f"{run.data} has no test set to evaluate on")
    folder.refuse_other_data(build.task_of(data), build.fingerprint(data))
    return data, data.test
