"""Around the training loop: saving, showing, timing, stopping, and detecting divergence."""

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

ASK_EVERY = 10  # steps between asking the other ranks whether to stop


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
    """Train to the last step or until a stop signal, and save the state to the folder, if any.

    Only rank 0 shows and saves.
    """
    world = loader.world
    stopwatch = Stopwatch(config)
    guard = DivergenceGuard(config, state, loader, folder)
    saved = state.step
    with StopRequest() as stop:
        stopping = 0

        def after_step(batch: Batch | Crops, losses: Losses) -> bool:
            nonlocal stopping
            stopwatch.step(batch.n_samples, state.step)
            guard.record(losses.total)
            display.step(state.step)
            # All ranks stop at the same step, whichever got the signal. Asking makes a GPU wait.
            if world.size == 1 or state.step % ASK_EVERY == 0:
                stopping = world.max(stop.requested)
            return bool(stopping)

        rows = train(config, method, TimedLoader(loader, stopwatch), state, test, fabric, after_step)
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
    """Checks that losses and predictions are finite, so that a diverged state is never saved."""

    def __init__(self, config: RunConfig, state: TrainState, loader: StepLoader, folder: RunFolder | None) -> None:
        self.state = state
        self.folder = folder
        self.source = loader.source
        self.sample = fixed_sample(loader.source, 64)
        self.check_every = 1 if config.device == "cpu" else 50  # each check waits for a GPU
        self.recent: list[tuple[int, Tensor]] = []

    def record(self, loss: Tensor) -> None:
        """Remember a step's loss, and check the recent ones every `check_every` steps."""
        self.recent.append((self.state.step, loss.detach()))
        if len(self.recent) >= self.check_every:
            self._check_losses()

    def watched(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The evaluations, which end with an error when predictions are not finite."""
        try:
            yield from rows
        except NotFinite as error:
            self._check_losses()
            raise self._diverged("the predictions became nan", self.state.step) from error

    def check(self) -> None:
        """Raise if a recent loss or a prediction after the last update is not finite."""
        self._check_losses()
        try:
            for network in self.state.networks:
                predict(network, self.source, self.sample, len(self.sample))
        except NotFinite as error:
            raise self._diverged("the predictions became nan", self.state.step) from error

    def _check_losses(self) -> None:
        for step, loss in self.recent:
            if not torch.isfinite(loss):
                raise self._diverged(f"the loss became {loss.item()}", step)
        self.recent.clear()

    def _diverged(self, what: str, step: int) -> UserError:
        kept = ""
        if self.folder is not None:
            has = "keeps its last good checkpoint" if self.folder.has_checkpoint else "has no checkpoint yet"
            kept = f"; {self.folder.path} {has}"
        return UserError(f"{what} at step {step}, and the run stopped{kept}. Try a smaller optimizer.lr")


class Stopwatch:
    """Measures the seconds by phase of the loop; each evaluation ends a lap."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self._begin()

    def _begin(self) -> None:
        self.views = 0.0
        self.samples = self.steps = 0
        self.start = self.stepped = time.perf_counter()

    def step(self, samples: int, step: int) -> None:
        """Count a step with this many samples."""
        if self.config.device != "cpu" and evaluation_due(self.config, step):
            torch.accelerator.synchronize()  # what the GPU still has to do belongs to the steps
        self.samples += samples
        self.steps += 1
        self.stepped = time.perf_counter()

    def lap(self) -> dict[str, Any]:
        """Samples per second (each counted once, however many views it has) and seconds by phase since the last lap.

        On a GPU, which works asynchronously, `views` and `training` are only correct in their sum, `stepping`.
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


class TimedLoader:
    """A loader whose time a stopwatch counts as `views`."""

    def __init__(self, loader: StepLoader, stopwatch: Stopwatch) -> None:
        self.loader, self.stopwatch = loader, stopwatch
        self.source, self.labelled, self.world = loader.source, loader.labelled, loader.world

    def __call__(self, step: int) -> Any:
        start = time.perf_counter()
        batch = self.loader(step)
        self.stopwatch.views += time.perf_counter() - start
        return batch
