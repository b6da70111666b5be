"""Turns a `Run` into its parts: data, network, method, optimizer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import nn

from surelabel.config.recipes import PHOTOGRAPH
from surelabel.config.run import CUSTOM, RunConfig, WeakNorm, steps_of
from surelabel.data import load as datasets
from surelabel.data import views
from surelabel.data.batch import Task
from surelabel.data.loader import Loader
from surelabel.data.multicrop import MultiCropLoader
from surelabel.data.source import DataSet
from surelabel.data.views import View
from surelabel.methods import METHODS
from surelabel.methods.base import Method
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.paws import Paws
from surelabel.methods.selection import Confidence, Select, Uncertainty
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard, Sharpen
from surelabel.models.backbones import backbone, pretrained
from surelabel.models.heads import Bayesian, BayesianHead, LinearHead
from surelabel.models.network import Network
from surelabel.models.paws_head import PawsHead
from surelabel.training.average import EMA, SWA, CosineEMA, Rule, WarmupEMA, averaged
from surelabel.training.build_views import build_view
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.lars import LARS
from surelabel.training.run_folder import RunFolder
from surelabel.training.state import TrainState
from surelabel.utils import cpu as cores
from surelabel.utils import devices
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator


def resolve(run: RunConfig) -> RunConfig:
    """The run with nothing left open: the method's own values, the device and the number of threads filled in."""
    device = devices.resolve_device(run.device)
    return replace(
        _with_own_values(run, build_method(run)),
        device=device,
        precision=devices.default_precision(device) if run.precision == "auto" else run.precision,
        # A GPU gains from it in long runs; on a CPU, compiling takes longer than a short run.
        compile=device == "cuda" if run.compile is None else run.compile,
        image_size=run.image_size or (PHOTOGRAPH if pretrained.NAME in (run.encoder, run.network.name) else None),
        # A table's sums are too small to share: a second thread gains nothing, and waits where others work.
        threads=run.threads or (1 if run.small else cores.cores_per_process(run.devices)),
        out=str(run.folder),
        data=run.data if run.data in (CUSTOM, *datasets.NAMED) else _absolute(run.data),
        data_dir=None if run.data_dir is None else _absolute(run.data_dir),
        labels=",".join(map(_absolute, run.label_paths)) or run.labels,
        init=None if run.init is None else _absolute(run.init),
    )


def _with_own_values(run: RunConfig, method: SelfTraining | Paws) -> RunConfig:
    temperature = method.target.temperature if isinstance(method.target, Sharpen) else 0.0
    run = replace(run, target=replace(run.target, temperature=temperature))
    if isinstance(method, Paws):
        return run
    threshold = method.select.threshold if isinstance(method.select, Confidence) else None
    quantile = method.select.quantile if isinstance(method.select, Uncertainty) else None
    return replace(
        run,
        selection=replace(run.selection, threshold=threshold, quantile=quantile),
        weight=method.weight,
        forward=method.forward,
        weak_norm=method.weak_norm,
    )


def _absolute(path: str) -> str:
    """The whole of a path that is there, so that the run can be evaluated from any folder."""
    return str(Path(path).resolve()) if Path(path).exists() else path


def build_method(run: RunConfig, samples: int = 1) -> SelfTraining | Paws:
    """The method that a run names, with the run's settings, where given, in place of the method's own.

    `samples` is the number of distinct training samples, which the ELBO divides by.
    """
    method = METHODS[run.base]
    prior = PriorLoss(run.head.kl, run.head.kl_weight, steps_of(run.head.kl_warmup, run.steps), samples)
    if isinstance(method, Paws):
        return _paws(run, replace(method, prior=prior))
    target = method.target
    if run.target.temperature is not None:
        target = Sharpen(run.target.temperature) if run.target.temperature > 0 else Hard()
    temperature = target.temperature if isinstance(target, Sharpen) else 1.0
    return replace(
        method,
        select=_select(run, method.select, temperature),
        target=target,
        weight=method.weight if run.weight is None else run.weight,
        head=method.head and _bayesian(run),
        sampled_temperature=temperature if run.target.sharpen_samples else 1.0,
        prior=prior,
        # A teacher of its own cannot be part of the network's pass.
        forward="split" if run.teaches else run.forward or method.forward,
        weak_norm=_weak_norm(run, method.weak_norm),
    )


def _weak_norm(run: RunConfig, own: WeakNorm) -> WeakNorm:
    """A teacher's running statistics are averages of the network's: its own passes must not move them."""
    asked = run.weak_norm or own
    return "batch-kept" if run.teaches and asked == "batch" else asked


def _paws(run: RunConfig, method: Paws) -> Paws:
    if run.target.temperature == 0:
        raise UserError("paws learns from sharpened assignments: target.temperature must be above zero")
    return replace(
        method,
        target=method.target if run.target.temperature is None else Sharpen(run.target.temperature),
        temperature=run.paws.temperature,
        smoothing=run.paws.smoothing,
        me_max=run.paws.me_max,
        head=method.head and _bayesian(run),
        own=run.teaches is None,
    )


def _bayesian(run: RunConfig) -> Bayesian:
    return Bayesian(run.head.samples, run.head.sampling, run.head.prior_std)


def _select(run: RunConfig, own: Select, temperature: float) -> Select:
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
            lagged=asked.lagged,
        )
    return own


def build_fabric(run: RunConfig) -> Fabric:
    """What puts the network on its device and, with several processes, averages their gradients."""
    return Fabric(
        accelerator=run.device,
        devices=run.devices,
        num_nodes=run.nodes,
        strategy="ddp" if run.processes > 1 else "auto",
    )


def build_network(run: RunConfig, task: Task, own: Components = NO_COMPONENTS) -> Network:
    """A network whose initial weights are a function of the seed alone; the backbone's do not depend on the head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(run.seed, "weights").integers(2**63)))
        body, features = _backbone(run, task, own)
        made = Network(body, _head(run, features, len(task.classes)), task)
    if run.precision == "64":
        made = made.double()
    if run.processes > 1 and run.device == "cuda":
        made = nn.SyncBatchNorm.convert_sync_batchnorm(made)  # type: ignore[no-untyped-call]
    if len(task.shape) != 3:
        return made
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _backbone(run: RunConfig, task: Task, own: Components) -> tuple[nn.Module, int]:
    """The backbone, and how many features it makes."""
    if run.network.name == CUSTOM:
        return own.given_backbone(task.shape)
    made = backbone(run.network, task.shape)
    return made, made.features


def _head(run: RunConfig, features: int, classes: int) -> LinearHead | BayesianHead | PawsHead:
    method = build_method(run)
    if isinstance(method, Paws):
        settings = run.paws
        return PawsHead(
            features, settings.width, classes, settings.temperature, method.head, settings.prediction_head,
            batch_norm=run.network.norm == "batch",
        )  # fmt: skip
    return BayesianHead(features, classes, method.head) if method.head else LinearHead(features, classes)


def build_optimizers(network: Network, run: RunConfig) -> list[torch.optim.Optimizer]:
    """SGD, or LARS, that spares biases and BatchNorm (all that has one dimension); Adam for a Bayesian classifier.

    BAM-PAWS's Gaussian layer stays with the network's own optimizer, its ρ spared like the biases. Each group of
    parameters keeps the rate that it starts with as `initial_lr`, for the schedule to change.
    """
    settings = run.optimizer
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
        optimizers.append(torch.optim.Adam(bayesian, run.head.lr))
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        group["initial_lr"] = group["lr"]
    return optimizers


def build_loader(
    run: RunConfig, data: DataSet, labelled: NDArray[np.int64], own: Components = NO_COMPONENTS
) -> Loader | MultiCropLoader:
    """The loader of a run's batches."""
    method = METHODS[run.base]
    device = torch.device(run.device)
    if isinstance(method, Paws):
        return _multicrop(run, data, labelled, device)
    weak, strong = (build_view(role, run, data, own) for role in method.views) if method.views else (None, None)
    return Loader(
        data.train, labelled, run.seed, run.batch.labelled, run.batch.ratio, device,
        build_view("labelled", run, data, own), weak, strong,
    )  # fmt: skip


def _multicrop(run: RunConfig, data: DataSet, labelled: NDArray[np.int64], device: torch.device) -> MultiCropLoader:
    settings = run.paws
    if len(data.train.shape) != 3:
        raise UserError(f"{run.method} compares crops of images, and these samples are none: choose another --method")
    large: View
    if settings.view == "periodic":
        if settings.small_crops:
            raise UserError(
                "paws.view periodic has no small views: a part of a crystal is another crystal. Set paws.small_crops 0"
            )
        large = small = views.named("periodic")
    else:
        large = views.paws_view(None, (settings.large_scale, 1), settings.view)
        size = settings.small_size or max(1, round(9 / 16 * min(data.train.shape[1:])))
        small = views.paws_view(size, (settings.small_scale_min, settings.small_scale), settings.view)
    loader = MultiCropLoader(
        data.train, labelled, run.seed, settings.unlabelled, settings.per_class, device, large, large, small,
        settings.classes, settings.support_views, settings.small_crops,
    )  # fmt: skip
    if loader.support % run.processes:
        raise UserError(
            f"a support of {loader.support} images (classes × paws.per_class) cannot be shared out evenly by "
            f"{run.processes} processes: choose another paws.per_class"
        )
    return loader


def build_state(run: RunConfig, network: Network, method: Method) -> TrainState:
    """The state before the first step."""
    network.to(run.device)
    rule = averaging_rule(run)
    average = None if rule is None else averaged(network, rule, run.average.buffers)
    return TrainState(
        network, average, build_optimizers(network, run), method.init(), average_teaches=run.teaches is not None
    )


def averaging_rule(run: RunConfig) -> Rule | None:
    """How the weights are averaged: as a teacher, else for evaluation alone; PAWS evaluates the network itself."""
    teacher = run.teacher
    if run.teaches == "swa":
        return SWA(steps_of(teacher.onset, run.steps))
    if run.teaches == "ema":
        if teacher.schedule == "linear":
            return WarmupEMA(teacher.gamma, steps_of(teacher.warmup, run.steps))
        return CosineEMA(teacher.gamma, run.steps)
    return None if run.uses_neighbours else EMA(run.average.decay, run.average.warm)


def start_from(network: Network, path: str | Path) -> None:
    """Give the network the evaluated backbone of another run."""
    stored = RunFolder(path).weights()
    backbone = {name.removeprefix("backbone."): stored[name] for name in stored if name.startswith("backbone.")}
    try:
        network.backbone.load_state_dict(backbone)
    except RuntimeError as error:
        raise UserError(f"init {path}: that run's network is another one than network.* describes: {error}") from error
