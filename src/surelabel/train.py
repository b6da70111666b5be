"""The training loop."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from surelabel.config import Run, steps_of
from surelabel.data.loader import Loader
from surelabel.data.source import Source
from surelabel.display import Display
from surelabel.errors import UserError
from surelabel.evaluate import NotFinite, figures, fixed_part
from surelabel.methods.selftraining import SelfTraining
from surelabel.metrics import SelectionSums, selection_sums
from surelabel.runfolder import RunFolder
from surelabel.schedules import cosine_7_16
from surelabel.signals import StopRequest
from surelabel.state import TrainState
from surelabel.types import Batch, Losses


def train(
    run: Run,
    method: SelfTraining,
    loader: Loader,
    state: TrainState,
    test: Source | None,
    folder: RunFolder,
    display: Display,
) -> None:
    """Train from `state.step` to the end of the run, or until asked to stop; the state is saved either way."""
    fabric = Fabric(accelerator=run.device, devices=1)
    model, optimizer = fabric.setup(state.network, state.optimizer)
    model.train()
    every = steps_of(run.evaluation.every, run.steps)
    watch = Stopwatch()
    losses_seen = Finite(folder, look_every=1 if run.device == "cpu" else 50)

    with StopRequest() as stop:
        while state.step < run.steps and not stop.requested:
            for group in state.optimizer.param_groups:
                group["lr"] = cosine_7_16(run.optimizer.lr, state.step, run.steps)

            with watch.part("views"):
                batch = loader(state.step)
            with watch.part("network"):
                losses, state.selection = method.loss(model, state.network, batch, state.selection, state.step)
                fabric.backward(losses.total)
            with watch.part("update"):
                optimizer.step()
                optimizer.zero_grad()
                state.average.update_parameters(state.network)
            count(state, batch, losses)
            watch.images += batch.images
            state.step += 1
            losses_seen.add(losses.total, state.step)
            display.step(state.step)

            if state.step % every == 0 or state.step == run.steps:
                losses_seen.look()
                with watch.part("evaluation"), losses_seen.blamed(state.step):
                    state.history.append(evaluation(run, state, test))
                display.evaluation(state.history[-1])
                state.tally.clear()
                folder.add_timing({"step": state.step} | watch.lap())
                folder.save(state)

        losses_seen.look()
        if stop.requested:
            folder.save(state)
    stop.end()


def count(state: TrainState, batch: Batch, losses: Losses) -> None:
    """Add a step's losses and selection to the tally."""
    state.count(steps=torch.ones_like(losses.total), labelled_loss=losses.labelled.detach())
    if losses.unlabelled is not None and losses.prediction is not None:
        assert losses.mask is not None and batch.hidden is not None
        state.count(
            unlabelled_loss=losses.unlabelled.detach(),
            **asdict(selection_sums(losses.prediction.probs, losses.mask, batch.hidden)),
        )


def evaluation(run: Run, state: TrainState, test: Source | None) -> dict[str, Any]:
    """A line of metrics.jsonl: the averaged network's test figures, the raw one's, and training's since the last."""
    row: dict[str, Any] = {"step": state.step}
    if test is not None:
        part = fixed_part(test, run.evaluation.samples)
        raw = figures(state.network, test, part, run.evaluation.batch)
        row |= {"samples": len(part)} | figures(state.averaged, test, part, run.evaluation.batch)
        row |= {f"raw_{name}": raw[name] for name in ("accuracy", "ece", "nll", "brier")}
    tally = dict(state.tally)
    steps = tally.pop("steps")
    for name in ("labelled_loss", "unlabelled_loss"):
        row[name] = (tally.pop(name) / steps).item() if name in tally else None
    pool = SelectionSums(**tally).figures() if tally else dict.fromkeys(("purity", "acceptance", "confidence"))
    return row | {"purity": pool["purity"], "acceptance": pool["acceptance"], "pool_confidence": pool["confidence"]}


class Finite:
    """Watches that the loss stays a finite number, looking seldom on a device that it would have to wait for."""

    def __init__(self, folder: RunFolder, look_every: int) -> None:
        self.folder = folder
        self.look_every = look_every
        self.recent: list[tuple[int, Tensor]] = []

    def add(self, loss: Tensor, step: int) -> None:
        self.recent.append((step, loss.detach()))
        if len(self.recent) >= self.look_every:
            self.look()

    def look(self) -> None:
        for step, loss in self.recent:
            if not torch.isfinite(loss):
                raise self._diverged(f"the loss became {loss.item()}", step)
        self.recent.clear()

    @contextmanager
    def blamed(self, step: int) -> Iterator[None]:
        """Within this block, predictions that are not finite are told with the step: the update before it did that."""
        try:
            yield
        except NotFinite as error:
            raise self._diverged("the predictions became nan", step) from error

    def _diverged(self, what: str, step: int) -> UserError:
        return UserError(
            f"{what} at step {step}, and the run stopped. {self.folder.path} keeps its last good checkpoint, if it had "
            "reached one. A smaller --optimizer.lr is the usual remedy"
        )


class Stopwatch:
    """Seconds by part of the loop since the last lap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.images = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def lap(self) -> dict[str, Any]:
        """Images per second (each image counted once, however many views it has) and the seconds of each part."""
        training = sum(seconds for name, seconds in self.seconds.items() if name != "evaluation")
        row = {"images_per_second": self.images / training} | self.seconds
        self.seconds, self.images = {}, 0
        return row
