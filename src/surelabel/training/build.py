"""Turns a config into its parts: data, network, method, optimizer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import nn

from surelabel.config.methods import find
from surelabel.config.recipes import PHOTOGRAPH
from surelabel.config.run import CUSTOM, RunConfig, steps_of
from surelabel.data.batch import Task
from surelabel.data.open import NAMED
from surelabel.data.source import DataSet
from surelabel.data.views import View
from surelabel.methods.base import Method, StepLoader
from surelabel.models.backbones import backbone, pretrained
from surelabel.models.heads import BayesianHead
from surelabel.models.network import Network
from surelabel.training.average import EMA, SWA, CosineEMA, Rule, WarmupEMA, averaged
from surelabel.training.build_views import build_view
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.lars import LARS
from surelabel.training.run_folder import RunFolder
from surelabel.training.state import TrainState
from surelabel.utils import cpu as cores
from surelabel.utils import devices
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator


def resolve(config: RunConfig) -> RunConfig:
    """The run with nothing left open: the method's own values, the device and the number of threads filled in."""
    device = devices.resolve_device(config.device)
    return replace(
        build_method(config).fill(config),
        device=device,
        precision=devices.default_precision(device) if config.precision == "auto" else config.precision,
        # A GPU gains from it in long runs; on a CPU, compiling takes longer than a short run.
        compile=device == "cuda" if config.compile is None else config.compile,
        image_size=config.image_size
        or (PHOTOGRAPH if pretrained.NAME in (config.encoder, config.network.name) else None),
        # A table's sums are too small to share: a second thread gains nothing, and waits where others work.
        threads=config.threads or (1 if config.small else cores.cores_per_process(config.devices)),
        out=str(config.folder),
        data=config.data if config.data in (CUSTOM, *NAMED) else _absolute(config.data),
        data_dir=None if config.data_dir is None else _absolute(config.data_dir),
        labels=",".join(map(_absolute, config.label_paths)) or config.labels,
        init=None if config.init is None else _absolute(config.init),
    )


def _absolute(path: str) -> str:
    """The whole of a path that is there, so that the run can be evaluated from any folder."""
    return str(Path(path).resolve()) if Path(path).exists() else path


def build_method(config: RunConfig, samples: int = 1) -> Method:
    """The method that a run names, with its settings; `samples` are the distinct training samples."""
    return find(config.method).configured(config, samples)


def build_fabric(config: RunConfig) -> Fabric:
    """What puts the network on its device and, with several processes, averages their gradients."""
    return Fabric(
        accelerator=config.device,
        devices=config.devices,
        num_nodes=config.nodes,
        strategy="ddp" if config.processes > 1 else "auto",
    )


def build_network(config: RunConfig, task: Task, components: Components = NO_COMPONENTS) -> Network:
    """A network whose initial weights are a function of the seed alone; the backbone's do not depend on the head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(config.seed, "weights").integers(2**63)))
        body, features = _backbone(config, task, components)
        made = Network(body, build_method(config).build_head(config, features, len(task.classes)), task)
    if config.precision == "64":
        made = made.double()
    if config.processes > 1 and config.device == "cuda":
        made = nn.SyncBatchNorm.convert_sync_batchnorm(made)  # type: ignore[no-untyped-call]
    if len(task.shape) != 3:
        return made
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _backbone(config: RunConfig, task: Task, components: Components) -> tuple[nn.Module, int]:
    """The backbone, and how many features it makes."""
    if config.network.name == CUSTOM:
        return components.given_backbone(task.shape)
    made = backbone(config.network, task.shape)
    return made, made.features


def build_optimizers(network: Network, config: RunConfig) -> list[torch.optim.Optimizer]:
    """SGD, or LARS, that spares biases and BatchNorm (all that has one dimension); Adam for a Bayesian classifier.

    BAM-PAWS's Gaussian layer stays with the network's own optimizer, its ρ spared like the biases. Each group of
    parameters keeps the rate that it starts with as `initial_lr`, for the schedule to change.
    """
    settings = config.optimizer
    bayesian = list(network.head.parameters()) if isinstance(network.head, BayesianHead) else []
    others = {
        name: parameter for name, parameter in network.named_parameters() if not any(parameter is p for p in bayesian)
    }
    spared = {name for name, parameter in others.items() if parameter.ndim <= 1 or name.endswith("_rho")}
    groups: list[dict[str, Any]] = [
        {"params": [others[name] for name in others if name not in spared], "weight_decay": settings.weight_decay},
        {"params": [others[name] for name in others if name in spared], "weight_decay": 0.0},
    ]
    optimizers: list[torch.optim.Optimizer]
    if settings.lars_trust > 0:
        groups[1]["trust"] = 0.0
        optimizers = [LARS(groups, settings.lr, settings.momentum, trust=settings.lars_trust)]
    else:
        optimizers = [torch.optim.SGD(groups, settings.lr, momentum=settings.momentum, nesterov=settings.nesterov)]
    if bayesian:
        optimizers.append(torch.optim.Adam(bayesian, config.head.lr))
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["initial_lr"] = group["lr"]
    return optimizers


def build_loader(
    config: RunConfig,
    data: DataSet,
    labelled: NDArray[np.int64],
    components: Components = NO_COMPONENTS,
    world: World = ALONE,
) -> StepLoader:
    """The loader of a run's batches, or of this process's part of them."""

    def view(role: str) -> View:
        return build_view(role, config, data, components)

    return find(config.method).build_loader(config, data, labelled, torch.device(config.device), view, world)


def build_state(config: RunConfig, network: Network, method: Method) -> TrainState:
    """The state before the first step."""
    network.to(config.device)
    rule = averaging_rule(config)
    average = None if rule is None else averaged(network, rule, config.average.buffers)
    return TrainState(
        network, average, build_optimizers(network, config), method.init(), average_teaches=config.teaches is not None
    )


def averaging_rule(config: RunConfig) -> Rule | None:
    """How the weights are averaged: as a teacher, else for evaluation alone; PAWS evaluates the network itself."""
    teacher = config.teacher
    if config.teaches == "swa":
        return SWA(steps_of(teacher.onset, config.steps))
    if config.teaches == "ema":
        if teacher.schedule == "linear":
            return WarmupEMA(teacher.gamma, steps_of(teacher.warmup, config.steps))
        return CosineEMA(teacher.gamma, config.steps)
    return EMA(config.average.decay, config.average.warm) if config.averages else None


def start_from(network: Network, path: str | Path) -> None:
    """Give the network the evaluated backbone of another run."""
    stored = RunFolder(path).weights()
    backbone = {name.removeprefix("backbone."): stored[name] for name in stored if name.startswith("backbone.")}
    try:
        network.backbone.load_state_dict(backbone)
    except RuntimeError as error:
        raise UserError(f"init {path}: that run's network is another one than network.* describes: {error}") from error
