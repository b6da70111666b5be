"""Turns a `Run` into its parts: data, network, method, optimizer."""

import os
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel import datasets
from surelabel.average import moving_average
from surelabel.backbones import backbone
from surelabel.config import Device, Run, steps_of
from surelabel.data import views
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.errors import UserError
from surelabel.heads import Bayesian, BayesianHead, LinearHead
from surelabel.methods import METHODS
from surelabel.methods.selftraining import PriorLoss, SelfTraining
from surelabel.network import Network
from surelabel.randomness import generator
from surelabel.select import Confidence, Select, Uncertainty
from surelabel.state import TrainState
from surelabel.targets import Hard, Sharpen
from surelabel.types import Task


def resolve(run: Run) -> Run:
    """The run with nothing left open: the method's own values, the device and the number of threads filled in."""
    method = build_method(run)
    threshold = method.select.threshold if isinstance(method.select, Confidence) else None
    quantile = method.select.quantile if isinstance(method.select, Uncertainty) else None
    temperature = method.target.temperature if isinstance(method.target, Sharpen) else 0.0
    return replace(
        run,
        selection=replace(run.selection, threshold=threshold, quantile=quantile),
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


def build_method(run: Run, samples: int = 1) -> SelfTraining:
    """The method that a run names, with the run's settings, where given, in place of the method's own.

    `samples` is the number of distinct training samples, which the ELBO divides by.
    """
    method = METHODS[run.method]
    target = method.target
    if run.target.temperature is not None:
        target = Sharpen(run.target.temperature) if run.target.temperature > 0 else Hard()
    temperature = target.temperature if isinstance(target, Sharpen) else 1.0
    head = run.head
    return replace(
        method,
        select=_select(run, method.select, temperature),
        target=target,
        weight=method.weight if run.weight is None else run.weight,
        head=method.head
        and Bayesian(head.samples, head.sampling, head.prior, temperature if run.target.twice else 1.0),
        prior=PriorLoss(head.kl, head.kl_weight, steps_of(head.kl_warmup, run.steps), samples),
        forward=run.forward or method.forward,
        weak_norm=run.weak_norm or method.weak_norm,
    )


def _select(run: Run, own: Select, temperature: float) -> Select:
    """The method's own selection rule with the run's settings."""
    asked = run.selection
    if isinstance(own, Confidence):
        threshold = own.threshold if asked.threshold is None else asked.threshold
        return Confidence(threshold, temperature if asked.sharpened else 1.0)
    if isinstance(own, Uncertainty):
        return Uncertainty(
            quantile=own.quantile if asked.quantile is None else asked.quantile,
            start=asked.start,
            warmup=steps_of(asked.warmup, run.steps),
            window=asked.window,
            statistic=asked.statistic,
            inclusive=asked.inclusive,
            previous=asked.previous,
        )
    return own


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
    """A network whose initial weights are a function of the seed alone; the backbone's do not depend on the head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(run.seed, "weights").integers(2**63)))
        trunk = backbone(run.network, task.shape)
        settings = build_method(run).head
        sizes = trunk.features, len(task.classes)
        made = Network(trunk, BayesianHead(*sizes, settings) if settings else LinearHead(*sizes), task)
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def build_optimizers(network: Network, run: Run) -> list[torch.optim.Optimizer]:
    """SGD whose weight decay spares biases and BatchNorm (all that has one dimension); Adam for a Bayesian head.

    Each group of parameters keeps the rate that it starts with as `initial_lr`, for the schedule to shrink.
    """
    settings = run.optimizer
    bayesian = list(network.head.parameters()) if isinstance(network.head, BayesianHead) else []
    others = [parameter for parameter in network.parameters() if not any(parameter is p for p in bayesian)]
    groups = [
        {"params": [parameter for parameter in others if parameter.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [parameter for parameter in others if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.SGD(groups, settings.lr, momentum=settings.momentum, nesterov=settings.nesterov)
    ]
    if bayesian:
        optimizers.append(torch.optim.Adam(bayesian, run.head.lr))
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["initial_lr"] = group["lr"]
    return optimizers


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
        network, moving_average(network, run.average), build_optimizers(network, run), method.select.init()
    )
