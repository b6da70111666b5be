"""The training loop."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from surelabel.config.run import Optimizer, RunConfig, steps_of
from surelabel.data.batch import Batch, Crops
from surelabel.data.source import Source
from surelabel.methods.base import Losses, Method, StepLoader
from surelabel.methods.schedules import cosine_7_16, warmup_cosine
from surelabel.training.evaluate import evaluation_subset, metrics_on
from surelabel.training.metrics import SelectionSums, selection_sums
from surelabel.training.state import TrainState
from surelabel.utils.devices import autocast, wide_products
from surelabel.utils.distributed import World
from surelabel.utils.literals import Precision

Row = dict[str, Any]  # one line of metrics.jsonl
OF_SELECTION = ("purity", "acceptance", "effective_classes")
AfterStep = Callable[[Batch | Crops, Losses], bool]


def train(
    config: RunConfig,
    method: Method,
    loader: StepLoader,
    state: TrainState,
    test: Source | None,
    fabric: Fabric,
    after_step: AfterStep = lambda batch, losses: False,
) -> Iterator[Row]:
    """Train from `state.step` to the last step, and yield each evaluation, when the state can be saved.

    `after_step` gets each step's batch and losses; if it returns True, training stops. The ranks share evaluations
    out, of which only rank 0 yields the rows; those of the others are empty.
    """
    network: nn.Module = torch.compile(state.network) if config.compile else state.network  # type: ignore[assignment]
    model, *_ = fabric.setup(network, *state.optimizers)
    model.train()
    stopping = False
    while state.step < config.steps and not stopping:
        set_learning_rates(state, lr_factor(config.optimizer, state.step, config.steps))
        batch = loader(state.step)
        losses = training_step(method, model, state, batch, fabric.backward, config.precision)
        stopping = after_step(batch, losses)
        if evaluation_due(config, state.step):
            reduce_sums(state, loader.world)
            prepare_to_save(config, method, state, loader)
            row = evaluation(config, state, test, loader.world)
            if row:
                state.history.append(row)
            state.running_sums.clear()
            yield row


def training_step(
    method: Method, model: nn.Module, state: TrainState, batch: Any, backward: Callable[[Tensor], None],
    precision: Precision = "32",
) -> Losses:  # fmt: skip
    """One step: loss, backward, update, average."""
    with wide_products(state.network.has_large_products):
        with autocast(precision, state.network.scale.device):
            losses, state.selection = method.loss(model, state.teacher, batch, state.selection, state.step)
        backward(losses.total * batch.world.weight)
    for optimizer in state.optimizers:
        optimizer.step()
        optimizer.zero_grad()
    if state.average is not None:
        state.average.update_parameters(state.network)
    accumulate(state, batch, losses)
    state.step += 1
    return losses


def evaluation_due(config: RunConfig, step: int) -> bool:
    """Whether to evaluate after this many steps."""
    return step % steps_of(config.evaluation.every, config.steps) == 0 or step == config.steps


def set_learning_rates(state: TrainState, factor: float) -> None:
    """Scale the initial learning rate of each parameter group."""
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor


def lr_factor(settings: Optimizer, step: int, steps: int) -> float:
    """The factor of the initial learning rates at this step."""
    if settings.schedule == "cosine-7-16":
        return cosine_7_16(1, step, steps)
    return warmup_cosine(settings.start, 1, settings.end, step, steps_of(settings.warmup, steps), steps)


def prepare_to_save(config: RunConfig, method: Method, state: TrainState, loader: StepLoader) -> None:
    """Update what the networks store about the labelled samples (PAWS's support)."""
    for network in state.networks:
        method.before_evaluation(network, loader.source, loader.labelled, config.evaluation.batch)


def reduce_sums(state: TrainState, world: World) -> None:
    """Sum the running sums on rank 0 and clear them on the other ranks."""
    whole = {name: world.sum(value) for name, value in sorted(state.running_sums.items())}
    state.running_sums = whole if world.rank == 0 else {}


def gather_sums(state: TrainState, world: World) -> None:
    """Collect the running sums of all ranks, one entry per rank, for the checkpoint."""
    state.running_sums = {name: world.gather(value) for name, value in sorted(state.running_sums.items())}


def accumulate(state: TrainState, batch: Batch | Crops, losses: Losses) -> None:
    """Add a step's losses and selection to this rank's running sums.

    A loss is a mean over samples, so the loss of the global batch is the sum over the ranks of theirs times their
    shares.
    """
    share = batch.world.weight / batch.world.size
    state.accumulate(steps=torch.full_like(losses.total, share))
    state.accumulate(**{f"{name}_loss": value.detach() * share for name, value in losses.parts.items()})
    if losses.prediction is not None:
        assert losses.accepted is not None and batch.hidden is not None
        state.accumulate(**vars(selection_sums(losses.prediction.probs, losses.accepted, batch.hidden)))


def evaluation(config: RunConfig, state: TrainState, test: Source | None, world: World) -> Row:
    """Metrics of the evaluated and the raw network on test samples, and of training since the last evaluation.

    In the precision of training; what a finished run is said to reach is measured in float32. Empty but for rank 0.
    """
    row: Row = {"step": state.step}
    if test is not None:
        index = evaluation_subset(test, config.evaluation.samples)
        batch, precision = config.evaluation.batch, config.precision
        found = [metrics_on(network, test, index, batch, precision, world) for network in state.networks]
        raw, evaluated = found[0], found[-1]
        row |= {"samples": len(index)} | evaluated
        row |= {f"raw_{name}": raw[name] for name in ("accuracy", "ece", "nll", "brier")}
    if world.rank > 0:
        return {}
    sums = {name: value[0] for name, value in state.running_sums.items()}
    steps = sums.pop("steps")
    for name in [name for name in sums if name.endswith("_loss")]:
        row[name] = (sums.pop(name) / steps).item()
    pool = dict(SelectionSums(**sums).metrics()) if sums else dict.fromkeys((*OF_SELECTION, "confidence"))
    return row | {name: pool[name] for name in OF_SELECTION} | {"pool_confidence": pool["confidence"]}
