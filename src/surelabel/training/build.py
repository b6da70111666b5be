"""From a config to its method, network, optimizers, loader and state."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import nn

from surelabel.config.encoders import ENCODERS, split_name
from surelabel.config.methods import find
from surelabel.config.run import CUSTOM, RunConfig, steps_of
from surelabel.data.batch import Task
from surelabel.data.open import NAMED
from surelabel.data.source import DataSet
from surelabel.methods.base import Method, Pool, StepLoader
from surelabel.models.backbones import backbone
from surelabel.models.backbones.trained_encoder import TrainedEncoder
from surelabel.models.heads import BayesianHead
from surelabel.models.network import Network
from surelabel.training import build_data
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
    """The config with every default filled in: the method's published values, device, threads, absolute paths."""
    device = devices.resolve_device(config.device)
    return replace(
        build_method(config).fill(config),
        device=device,
        precision=devices.default_precision(device, config.encoder if config.train_encoder else config.network.name)
        if config.precision == "auto"
        else config.precision,
        # Pays off on a GPU in long runs; on a CPU, compiling takes longer than a short run.
        compile=device == "cuda" if config.compile is None else config.compile,
        image_size=config.image_size or ENCODERS.get(config.encoder),
        # Operations on a table are too small to share: a second thread would only wait.
        encoder=_absolute_encoder(config.encoder),
        threads=config.threads or (1 if config.small else cores.cores_per_process(config.devices)),
        out=str(config.folder),
        data=config.data if config.data in (CUSTOM, *NAMED) else _absolute(config.data),
        data_dir=None if config.data_dir is None else _absolute(config.data_dir),
        labels=",".join(map(_absolute, config.label_paths)) or config.labels,
        init=None if config.init is None else _absolute(config.init),
    )


def _absolute(path: str) -> str:
    """The absolute path if it exists, so that the run can be evaluated from any folder."""
    return str(Path(path).resolve()) if Path(path).exists() else path


def _absolute_encoder(name: str) -> str:
    """The same for an encoder in a folder or file."""
    prefix, rest, _ = split_name(name)
    return f"{prefix}:{_absolute(rest)}" if prefix and Path(rest).exists() else name


def build_method(config: RunConfig, samples: int = 1) -> Method:
    """The method with the settings of a config; `samples` is the number of distinct training samples."""
    return find(config.method).configured(config, samples)


def build_fabric(config: RunConfig) -> Fabric:
    """Fabric moves the network to its device and averages gradients over the ranks."""
    return Fabric(
        accelerator=config.device,
        devices=config.devices,
        num_nodes=config.nodes,
        strategy="ddp" if config.processes > 1 else "auto",
    )


def build_network(config: RunConfig, task: Task, components: Components = NO_COMPONENTS) -> Network:
    """A network whose initial weights depend only on the seed; the backbone's do not depend on the head."""
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
    """The backbone and its number of features."""
    if config.train_encoder:
        encoder = build_data.trainable(build_data.encoder_of(config, components))
        further = TrainedEncoder(encoder, config.tuning.norm)
        return further, further.features
    if config.network.name == CUSTOM:
        return components.given_backbone(task.shape)
    made = backbone(config.network, task.shape, config.sure.components)
    return made, made.features


def build_optimizers(network: Network, config: RunConfig) -> list[torch.optim.Optimizer]:
    """SGD or LARS, without weight decay for biases and norms (all 1-d parameters); Adam for a Bayesian classifier.

    BAM-PAWS's Gaussian layer is trained like the backbone, without decay of its ρ. Each parameter group keeps its
    learning rate as `initial_lr`, which the schedule scales.
    """
    settings = config.optimizer
    fused = config.device in ("cpu", "cuda")  # one pass over the weights
    bayesian = list(network.head.parameters()) if isinstance(network.head, BayesianHead) else []
    groups: list[dict[str, Any]] = []
    for share, parameters in _by_share(network, config):
        decayed: list[nn.Parameter] = []
        plain: list[nn.Parameter] = []
        for name, parameter in parameters.items():
            if not any(parameter is other for other in bayesian):
                (plain if parameter.ndim <= 1 or name.endswith("_rho") else decayed).append(parameter)
        groups += [
            {"params": decayed, "weight_decay": settings.weight_decay, "lr": share * settings.lr},
            {"params": plain, "weight_decay": 0.0, "lr": share * settings.lr},
        ]
    optimizers: list[torch.optim.Optimizer]
    if settings.lars_trust > 0:
        for group in groups[1::2]:
            group["trust"] = 0.0
        optimizers = [LARS(groups, settings.lr, settings.momentum, trust=settings.lars_trust)]
    else:
        optimizers = [
            torch.optim.SGD(groups, settings.lr, momentum=settings.momentum, nesterov=settings.nesterov, fused=fused)
        ]
    if bayesian:
        optimizers.append(torch.optim.Adam(bayesian, config.head.lr, fused=fused))
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["initial_lr"] = group["lr"]
    return optimizers


def _by_share(network: Network, config: RunConfig) -> list[tuple[float, dict[str, nn.Parameter]]]:
    """The parameters by name, in parts with each a share of the learning rate."""
    named = dict(network.named_parameters())
    if not config.train_encoder:
        return [(1.0, named)]
    encoder = {name: parameter for name, parameter in named.items() if name.startswith("backbone.")}
    head = {name: parameter for name, parameter in named.items() if name not in encoder}
    return [(config.tuning.lr_share, encoder), (1.0, head)]


def build_loader(
    config: RunConfig,
    data: DataSet,
    labelled: NDArray[np.int64],
    components: Components = NO_COMPONENTS,
    world: World = ALONE,
) -> StepLoader:
    """The loader of this rank's batches."""
    view = partial(build_view, config=config, data=data, components=components)
    return build_method(config).build_loader(config, data, labelled, torch.device(config.device), view, world)


def build_state(config: RunConfig, network: Network, method: Method, pool: Pool) -> TrainState:
    """The state before the first step."""
    network.to(config.device)
    kept = {name: tensor.to(config.device) for name, tensor in method.init(pool).items()}
    rule = averaging_rule(config)
    average = None if rule is None else averaged(network, rule, config.average.buffers)
    return TrainState(
        network, average, build_optimizers(network, config), kept, average_teaches=config.teaches is not None
    )


def averaging_rule(config: RunConfig) -> Rule | None:
    """How to average the weights, for a teacher or only for evaluation; None where the raw network is evaluated."""
    teacher = config.teacher
    if config.teaches == "swa":
        return SWA(steps_of(teacher.onset, config.steps))
    if config.teaches == "ema":
        if teacher.schedule == "linear":
            return WarmupEMA(teacher.gamma, steps_of(teacher.warmup, config.steps))
        return CosineEMA(teacher.gamma, config.steps)
    return EMA(config.average.decay, config.average.warm) if config.averages else None


def start_from(network: Network, path: str | Path) -> None:
    """Load the backbone of another run's evaluated weights."""
    stored = RunFolder(path).weights()
    try:
        network.backbone.load_state_dict(
            {name.removeprefix("backbone."): stored[name] for name in stored if name.startswith("backbone.")}
        )
    except RuntimeError as error:
        raise UserError(f"init {path}: its network differs from the one that network.* describes: {error}") from error
