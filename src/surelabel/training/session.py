"""What surrounds the training loop: saving, showing, timing, stopping, and watching that it does not diverge."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from surelabel.config.run import RunConfig
from surelabel.data.batch import Batch, Crops
from surelabel.data.source import Source
from surelabel.methods.base import Losses, Method, StepLoader
from surelabel.training.display import Display
from surelabel.training.evaluate import NotFinite, fixed_sample, predict
from surelabel.training.loop import Row, evaluation_due, gather_sums, prepare_to_save, train
from surelabel.training.run_folder import RunFolder
from surelabel.training.state import TrainState
from surelabel.utils.errors import UserError
from surelabel.utils.signals import StopRequest

ASK_EVERY = 10  # steps between two questions to the other processes whether to stop


def train_and_save(
    config: RunConfig,
    method: Method,
    loader: StepLoader,
    state: TrainState,
    test: Source | None,
    folder: RunFolder | None,
    display: Display,
    fabric: Fabric,
) -> None:
    """Train to the end of the run, or until asked to stop; where there is a folder, the state is saved either way.

    Of several processes the first evaluates, shows and saves.
    """
    world = loader.world
    stopwatch = Stopwatch(config, world.size)
    guard = DivergenceGuard(config, state, loader, folder)
    saved = state.step
    with StopRequest() as stop:
        stopping = 0

        def after_step(batch: Batch | Crops, losses: Losses) -> bool:
            nonlocal stopping
            stopwatch.step(batch.n_samples, state.step)
            guard.record(losses.total)
            display.step(state.step)
            # All stop at the same step, whichever of them the signal reached. Asking makes a GPU wait.
            if world.size == 1 or state.step % ASK_EVERY == 0:
                stopping = world.max(stop.requested)
            return bool(stopping)

        rows = train(config, method, stopwatch.timed(loader), state, test, fabric, after_step)
        for row in guard.watched(rows):
            saved = state.step
            if world.rank == 0:
                timing = stopwatch.lap()
                guard.check()
                display.evaluation(row)
                if folder is not None:
                    folder.save(state)
                    folder.add_timing({"step": state.step} | timing)
        if saved != state.step:
            gather_sums(state, world)
            if world.rank == 0 and folder is not None:
                prepare_to_save(config, method, state, loader)
                guard.check()
                folder.save(state)
    fabric.barrier()
    stop.end(stopping)


class DivergenceGuard:
    """Watches that losses and predictions stay finite, so that a diverged state is never saved."""

    def __init__(self, config: RunConfig, state: TrainState, loader: StepLoader, folder: RunFolder | None) -> None:
        self.state = state
        self.folder = folder
        self.source = loader.source
        self.sample = fixed_sample(loader.source, 64)
        # A GPU would have to be waited for at every look.
        self.check_every = 1 if config.device == "cpu" else 50
        self.recent: list[tuple[int, Tensor]] = []

    def record(self, loss: Tensor) -> None:
        """Remember a step's loss, and look at those remembered now and then."""
        self.recent.append((self.state.step, loss.detach()))
        if len(self.recent) >= self.check_every:
            self._look()

    def watched(self, rows: Iterator[Row]) -> Iterator[Row]:
        """These evaluations; predictions that are not finite end the run."""
        try:
            yield from rows
        except NotFinite as error:
            self._look()
            raise self._diverged("the predictions became nan", self.state.step) from error

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
        kept = ""
        if self.folder is not None:
            has = "keeps its last good checkpoint" if self.folder.has_checkpoint else "has no checkpoint yet"
            kept = f"; {self.folder.path} {has}"
        return UserError(
            f"{what} at step {step}, and the run stopped{kept}. A smaller optimizer.lr is the usual remedy"
        )


class Stopwatch:
    """Seconds by part of the loop since the last lap, which an evaluation ends."""

    def __init__(self, config: RunConfig, processes: int = 1) -> None:
        self.config = config
        self.processes = processes
        self._begin()

    def _begin(self) -> None:
        self.views = 0.0
        self.samples = self.steps = 0
        self.start = self.stepped = time.perf_counter()

    def timed(self, loader: StepLoader) -> StepLoader:
        """The loader, whose time counts as that of the views."""
        return _TimedLoader(loader, self)

    def step(self, samples: int, step: int) -> None:
        """A step with so many samples in each process has ended."""
        if self.config.device != "cpu" and evaluation_due(self.config, step):
            torch.accelerator.synchronize()  # what a GPU has still to do is part of the steps
        self.samples += samples * self.processes
        self.steps += 1
        self.stepped = time.perf_counter()

    def lap(self) -> dict[str, Any]:
        """Samples per second of training (each counted once, however many views it has), and the seconds by part.

        On a GPU views and training are not told apart; `stepping`, the time of all `steps` of this lap, holds there
        too.
        """
        now = time.perf_counter()
        stepping = self.stepped - self.start
        row = {
            "images_per_second": self.samples / stepping,
            "views": self.views,
            "training": stepping - self.views,
            "evaluation": now - self.stepped,
            "stepping": stepping,
            "steps": self.steps,
        }
        self._begin()
        return row


class _TimedLoader:
    """A loader whose calls a stopwatch counts."""

    def __init__(self, loader: StepLoader, stopwatch: Stopwatch) -> None:
        self.loader, self.stopwatch = loader, stopwatch
        self.source, self.labelled, self.world = loader.source, loader.labelled, loader.world

    def __call__(self, step: int) -> Any:
        start = time.perf_counter()
        batch = self.loader(step)
        self.stopwatch.views += time.perf_counter() - start
        return batch
