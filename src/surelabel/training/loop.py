"""The training loop."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from surelabel.config.run import Optimizer, RunConfig, steps_of
from surelabel.data.batch import Batch, Crops
from surelabel.data.loader import Loader
from surelabel.data.multicrop import MultiCropLoader
from surelabel.data.source import Source
from surelabel.methods.base import Losses, Method
from surelabel.methods.schedules import cosine_7_16, warmup_cosine
from surelabel.models.network import running_statistics
from surelabel.training.display import Display
from surelabel.training.evaluate import NotFinite, evaluation_subset, fixed_sample, metrics_on, predict, update_support
from surelabel.training.metrics import SelectionSums, selection_sums
from surelabel.training.run_folder import CHECKPOINT, RunFolder
from surelabel.training.state import TrainState
from surelabel.utils.devices import autocast
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from surelabel.utils.literals import Precision
from surelabel.utils.signals import StopRequest

AnyLoader = Loader | MultiCropLoader
LOSSES = ("labelled", "unlabelled", "prior", "me_max")
ASK_EVERY = 10  # steps between two questions to the other processes whether to stop


def train(
    run: RunConfig,
    method: Method,
    loader: AnyLoader,
    state: TrainState,
    test: Source | None,
    folder: RunFolder,
    display: Display,
    fabric: Fabric,
) -> None:
    """Train from `state.step` to the end of the run, or until asked to stop; the state is saved either way.

    Of several processes the first evaluates, shows and saves.
    """
    network: nn.Module = torch.compile(state.network) if run.compile else state.network  # type: ignore[assignment]
    model, *_ = fabric.setup(network, *state.optimizers)
    model.train()
    every = steps_of(run.evaluation.every, run.steps)
    watch = Stopwatch(run.device)
    health = DivergenceGuard(run, state, loader, folder)
    saved = state.step

    world = loader.world
    with StopRequest() as stop:
        stopping = 0
        while state.step < run.steps and not stopping:
            set_learning_rates(state, lr_factor(run.optimizer, state.step, run.steps))
            with watch.part("views"):
                batch = loader(state.step)
            with watch.part("training"):
                losses = training_step(method, model, state, batch, fabric.backward, run.precision)
            watch.images += batch.images * world.size
            watch.steps += 1
            health.note(losses.total)
            display.step(state.step)
            # All stop at the same step, whichever of them the signal reached. Asking makes a GPU wait.
            if world.size == 1 or state.step % ASK_EVERY == 0:
                stopping = world.max(stop.requested)

            if state.step % every == 0 or state.step == run.steps:
                saved = state.step
                reduce_sums(state, world)
                if world.rank == 0:
                    with watch.evaluation():
                        prepare_to_save(run, state, loader, health)
                        state.history.append(evaluation(run, state, test))
                    display.evaluation(state.history[-1])
                    state.tally.clear()
                    folder.save(state)
                    folder.add_timing({"step": state.step} | watch.lap())
        if saved != state.step:
            gather_sums(state, world)
            if world.rank == 0:
                prepare_to_save(run, state, loader, health)
                folder.save(state)
    fabric.barrier()
    stop.end(stopping)


def set_learning_rates(state: TrainState, factor: float) -> None:
    """Give each group of parameters this share of its own learning rate."""
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor


def lr_factor(settings: Optimizer, step: int, steps: int) -> float:
    """The share of its own learning rate that each group of parameters has at this step."""
    if settings.schedule == "cosine-7-16":
        return cosine_7_16(1, step, steps)
    return warmup_cosine(settings.start, 1, settings.end, step, steps_of(settings.warmup, steps), steps)


def reduce_sums(state: TrainState, world: World) -> None:
    """Give the first process the tally of all; the others begin anew."""
    whole = {name: world.sum(value) for name, value in sorted(state.tally.items())}
    state.tally = whole if world.rank == 0 else {}


def gather_sums(state: TrainState, world: World) -> None:
    """Give each process the tallies of all, side by side, to go on from later."""
    state.tally = {name: world.gather(value[None]) for name, value in sorted(state.tally.items())}


def prepare_to_save(run: RunConfig, state: TrainState, loader: AnyLoader, health: "DivergenceGuard") -> None:
    """Make the state fit to be evaluated and saved: up to date, and sound."""
    for network in state.networks:  # what a network remembers of the labelled images
        update_support(network, loader.source, loader.labelled, run.evaluation.batch)
    health.check()


def training_step(
    method: Method, model: nn.Module, state: TrainState, batch: Any, backward: Callable[[Tensor], None],
    precision: Precision = "32",
) -> Losses:  # fmt: skip
    """One step: loss, backward, update, average."""
    with autocast(precision, state.network.scale.device):
        losses, state.selection = method.loss(model, state.teacher, batch, state.selection, state.step)
    backward(losses.total)
    for optimizer in state.optimizers:
        optimizer.step()
        optimizer.zero_grad()
    if batch.world.size > 1:  # between two steps all have one state, which a checkpoint can hold
        batch.world.average_(running_statistics(state.network))
    if state.average is not None:
        state.average.update_parameters(state.network)
    count(state, batch, losses)
    state.step += 1
    return losses


def count(state: TrainState, batch: Batch | Crops, losses: Losses) -> None:
    """Add a step's losses and selection to the tally, which the processes' parts add up to.

    A loss is a mean over samples, so that of the whole batch is the mean over processes.
    """
    of = batch.world.size
    state.count(steps=torch.ones_like(losses.total) / of)
    parts = {name: getattr(losses, name) for name in LOSSES}
    state.count(**{f"{name}_loss": value.detach() / of for name, value in parts.items() if value is not None})
    if losses.prediction is not None:
        assert losses.mask is not None and batch.hidden is not None
        state.count(**vars(selection_sums(losses.prediction.probs, losses.mask, batch.hidden)))


def evaluation(run: RunConfig, state: TrainState, test: Source | None) -> dict[str, Any]:
    """A line of metrics.jsonl: the evaluated network's test figures, the raw one's, and training's since the last."""
    row: dict[str, Any] = {"step": state.step}
    if test is not None:
        part = evaluation_subset(test, run.evaluation.samples)
        found = [metrics_on(network, test, part, run.evaluation.batch) for network in state.networks]
        raw, evaluated = found[0], found[-1]
        row |= {"samples": len(part)} | evaluated
        row |= {f"raw_{name}": raw[name] for name in ("accuracy", "ece", "nll", "brier")}
    tally = dict(state.tally)
    steps = tally.pop("steps")
    for name in (f"{name}_loss" for name in LOSSES):
        row[name] = (tally.pop(name) / steps).item() if name in tally else None
    pool = SelectionSums(**tally).metrics() if tally else dict.fromkeys(("purity", "acceptance", "confidence"))
    return row | {"purity": pool["purity"], "acceptance": pool["acceptance"], "pool_confidence": pool["confidence"]}


class DivergenceGuard:
    """Watches that losses and predictions stay finite numbers, so that a diverged state is never saved."""

    def __init__(self, run: RunConfig, state: TrainState, loader: AnyLoader, folder: RunFolder) -> None:
        self.state = state
        self.folder = folder
        self.source = loader.source
        self.sample = fixed_sample(loader.source, 64)
        # A GPU would have to be waited for at every look.
        self.check_every = 1 if run.device == "cpu" else 50
        self.recent: list[tuple[int, Tensor]] = []

    def note(self, loss: Tensor) -> None:
        """Remember a step's loss, and look at those remembered now and then."""
        self.recent.append((self.state.step, loss.detach()))
        if len(self.recent) >= self.check_every:
            self._look()

    def check(self) -> None:
        """Raise where a loss was not finite, or where the last update made the predictions so."""
        self._look()
        try:
            for network in self.state.networks:
                predict(network, self.source, self.sample, len(self.sample))
        except NotFinite as error:
            raise self._diverged("the predictions became nan", self.state.step) from error

    def _look(self) -> None:
        for step, loss in self.recent:
            if not torch.isfinite(loss):
                raise self._diverged(f"the loss became {loss.item()}", step)
        self.recent.clear()

    def _diverged(self, what: str, step: int) -> UserError:
        kept = "keeps its last good checkpoint" if (self.folder.path / CHECKPOINT).exists() else "has no checkpoint yet"
        return UserError(
            f"{what} at step {step}, and the run stopped; {self.folder.path} {kept}. "
            "A smaller --optimizer.lr is the usual remedy"
        )


class Stopwatch:
    """Seconds by part of the loop since the last lap, which an evaluation ends."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._begin()

    def _begin(self) -> None:
        self.seconds: dict[str, float] = {}
        self.images = self.steps = 0
        self.stepping = 0.0
        self.start = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """The part after the lap's steps; what a GPU, which works behind our back, has still to do is part of these."""
        with self.part("training"):
            if self.device != "cpu":
                torch.accelerator.synchronize()
        self.stepping = time.perf_counter() - self.start
        with self.part("evaluation"):
            yield

    def lap(self) -> dict[str, Any]:
        """Images per second of training (each counted once, however many views it has), and the seconds of each part.

        On a GPU views and training are not told apart; `stepping`, the time of all `steps` that this lap made, holds
        there too.
        """
        whole = time.perf_counter() - self.start
        row = {"images_per_second": self.images / (whole - self.seconds["evaluation"])} | self.seconds
        row |= {"stepping": self.stepping, "steps": self.steps}
        self._begin()
        return row
