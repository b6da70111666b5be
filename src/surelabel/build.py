"""Turns a `Run` into its parts: data, network, method, optimizer."""

import os
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from surelabel import datasets
from surelabel.average import moving_average
from surelabel.backbones import backbone
from surelabel.config import Device, Optimizer, Run
from surelabel.data import views
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.errors import UserError
from surelabel.heads import LinearHead
from surelabel.methods import METHODS
from surelabel.methods.selftraining import SelfTraining
from surelabel.network import Network
from surelabel.randomness import generator
from surelabel.select import Confidence
from surelabel.state import TrainState
from surelabel.targets import Hard, Sharpen
from surelabel.types import Task


def resolve(run: Run) -> Run:
    """The run with nothing left open: the method's own values, the device and the number of threads filled in."""
    method = build_method(run)
    threshold = method.select.threshold if isinstance(method.select, Confidence) else None
    temperature = method.target.temperature if isinstance(method.target, Sharpen) else 0.0
    return replace(
        run,
        selection=replace(run.selection, threshold=threshold),
        target=replace(run.target, temperature=temperature),
        weight=method.weight,
        forward=method.forward,
        weak_norm=method.weak_norm,
        device=usable(run.device),
        threads=run.threads or os.cpu_count() or 1,
        out=str(run.folder),
        data=run.data if run.data in datasets.NAMED else _whole(run.data),
        data_dir=None if run.data_dir is None else _whole(run.data_dir),
    )


def _whole(path: str) -> str:
    """The whole of a path that is there, so that the run can be evaluated from any folder."""
    return str(Path(path).resolve()) if Path(path).exists() else path


def build_method(run: Run) -> SelfTraining:
    """The method that a run names, with the run's settings, where given, in place of the method's own."""
    method = METHODS[run.method]
    select, target = method.select, method.target
    if run.selection.threshold is not None:
        if not isinstance(select, Confidence):
            raise UserError(f"selection.threshold: {run.method} does not select by a threshold on the confidence")
        select = Confidence(run.selection.threshold)
    if run.target.temperature is not None:
        target = Sharpen(run.target.temperature) if run.target.temperature > 0 else Hard()
    return replace(
        method,
        select=select,
        target=target,
        weight=method.weight if run.weight is None else run.weight,
        forward=run.forward or method.forward,
        weak_norm=run.weak_norm or method.weak_norm,
    )


def usable(device: Device) -> Device:
    """This device if it is there; for "auto", the best that is."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device cuda: torch {torch.__version__} finds none here. Use --device cpu, or auto")
    return device


def fingerprint(data: DataSet) -> str:
    """A short hash of the training data: all labels, and a hundred images spread over it."""
    sample = np.linspace(0, len(data.train) - 1, 100, dtype=np.int64)
    held = blake2b(data.train.labels.tobytes(), digest_size=8)
    held.update(data.train.images(sample).tobytes())
    return held.hexdigest()


def task_of(data: DataSet) -> Task:
    """What a network has to know of this data."""
    dtype = data.train.images(np.arange(1)).dtype
    return Task(data.train.shape, data.classes, str(dtype), data.offset, data.scale)


def build_network(run: Run, task: Task) -> Network:
    """A network whose initial weights are a function of the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(run.seed, "weights").integers(2**63)))
        trunk = backbone(run.network, task.shape)
        made = Network(trunk, LinearHead(trunk.features, len(task.classes)), task)
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def build_optimizer(network: nn.Module, settings: Optimizer) -> torch.optim.SGD:
    """SGD whose weight decay spares biases and BatchNorm: all that has one dimension."""
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    spared = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": weights, "weight_decay": settings.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, settings.lr, momentum=settings.momentum, nesterov=settings.nesterov)


def build_loader(run: Run, data: DataSet, labelled: NDArray[np.int64]) -> Loader:
    """The loader of a run's batches."""
    named = {"weak": run.views.weak, "strong": run.views.strong}
    roles = METHODS[run.method].views
    weak, strong = (views.named(named[role]) for role in roles) if roles else (None, None)
    device = torch.device(run.device)
    return Loader(
        data.train, labelled, run.seed, run.batch.labelled, run.batch.ratio, device,
        views.named(run.views.labelled), weak, strong,
    )  # fmt: skip


def build_split(run: Run, data: DataSet) -> NDArray[np.int64]:
    """Which training samples give their labels away, by the run's seed."""
    return draw_labelled(
        data.train.labels, len(data.classes), parse_labels(run.labels), run.seed, data.class_counts, data.classes
    )


def build_state(run: Run, network: Network, method: SelfTraining) -> TrainState:
    """The state before the first step."""
    network.to(run.device)
    return TrainState(
        network, moving_average(network, run.average), build_optimizer(network, run.optimizer), method.select.init()
    )
