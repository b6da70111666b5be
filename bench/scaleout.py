"""FixMatch steps by two processes of one thread each, joined by gloo, and by one process of two threads.

Both over twice what one process of one thread does. They stay and take turns, so that the machine's other load is on
all alike. Of two processes each has as many images as the one has, so that the global batch is twice as large; so many
has the process of two threads too. Two more
processes have BatchNorm statistics of their own, and so tell what sharing them costs.
"""

import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from bench.step import RUN, noise_data
from bench.timing import Row, Timings, interleaved
from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.methods.base import Pool
from surelabel.training import build, build_data
from surelabel.training.loop import training_step
from surelabel.training.session import ASK_EVERY
from surelabel.utils.distributed import World

LAPTOP = replace(recipe("fixmatch", "cifar10", 250), device="cpu", threads=1)
# Name, run, and steps in a turn.
SIZES = (("WRN-10-2", LAPTOP, 8), ("WRN-28-2", replace(RUN, threads=1), 1))
ROUNDS = 7


def run() -> list[Row]:
    return [row for name, settings, steps in SIZES for row in _rows(name, settings, steps)]


def _rows(name: str, settings: RunConfig, steps: int) -> list[Row]:
    double = replace(settings, batch=replace(settings.batch, labelled=settings.batch.labelled * 2))
    with tempfile.TemporaryDirectory() as folder:
        one, two = _Team(settings, 1, folder), _Team(replace(double, devices=2), 2, f"{folder}/shared")
        apart = _Team(double, 2, f"{folder}/apart")
        threads = _Team(replace(double, threads=2), 1, "")
        seconds = interleaved(
            {
                "one": lambda: one.work("steps", steps),
                "two": lambda: two.work("steps", steps),
                "apart": lambda: apart.work("steps", steps),
                "threads": lambda: threads.work("steps", steps),
                "sum": lambda: two.work("sum", steps),
                "any": lambda: two.work("any", steps),
            },
            ROUNDS,
        )
        parameters = one.parameters
        for team in (one, two, apart, threads):
            team.end()
    # Without the untimed first turn.
    used = Timings({"one": one.seconds[1:], "two": two.seconds[1:], "apart": apart.seconds[1:]})
    images = steps * settings.batch.labelled * (1 + settings.batch.ratio)
    return [
        Row(f"{name}, one process", images / seconds["one"], "images/s"),
        Row(f"{name}, two processes", 2 * images / seconds["two"], "images/s"),
        replace(seconds.ratio(f"{name}, two / twice one", "one", "two"), unit="of twice one", target="at least 0.85"),
        replace(seconds.ratio(f"{name}, two threads / twice one", "one", "threads"), unit="of twice one"),
        seconds.ratio(f"{name}, two threads / two processes", "threads", "two"),
        _of_twice(used.ratio(f"{name}, the same by the processors' time, without waiting", "one", "two")),
        seconds.ratio(f"{name}, BatchNorm shared / of each process", "two", "apart"),
        used.ratio(f"{name}, the same by the processors' time", "two", "apart"),
        Row(
            f"{name}, summing {4 * parameters / 1e6:.1f} MB of gradients alone",
            1000 * seconds["sum"] / steps,
            "ms a step",
        ),
        Row(f"{name}, sharing the stop flag alone", 1000 * seconds["any"] / steps, "ms a step"),
    ]


def _of_twice(ratio: Row) -> Row:
    """From one process's time over that of both."""
    assert ratio.interval is not None
    low, high = ratio.interval
    return replace(ratio, figure=2 * ratio.figure, interval=(2 * low, 2 * high), unit="of twice one")


class _Team:
    """Processes that wait for work. `seconds` are those of all their processors in each turn of steps."""

    def __init__(self, settings: RunConfig, size: int, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(size)]
        self.pipes = [mine for mine, _ in pipes]
        self.processes = [
            context.Process(target=_member, args=(theirs, settings, World(rank, size), folder), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self.processes:
            process.start()
        self.seconds: list[float] = []
        self.parameters = max(int(pipe.recv()) for pipe in self.pipes)

    def work(self, what: str, times: int) -> None:
        for pipe in self.pipes:
            pipe.send((what, times))
        used = sum(float(pipe.recv()) for pipe in self.pipes)
        if what == "steps":
            self.seconds.append(used)

    def end(self) -> None:
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(("end", 0))
            process.join()


def _member(pipe: "Connection[Any, Any]", settings: RunConfig, world: World, folder: str) -> None:
    torch.set_num_threads(settings.threads or 1)
    if world.size > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}-meeting", rank=world.rank, world_size=world.size)
    data = noise_data(5000)
    settings = build.resolve(settings)
    method = build.build_method(settings, len(data.train))
    loader = build.build_loader(settings, data, build_data.build_split(settings, data), world=world)
    network = build.build_network(settings, build_data.task_of(data))
    state = build.build_state(settings, network, method, Pool.of(loader))
    model: nn.Module = state.network if world.size == 1 else DistributedDataParallel(state.network)
    model.train()
    gradients = torch.zeros(sum(parameter.numel() for parameter in state.network.parameters()))
    pipe.send(len(gradients))
    while (message := pipe.recv())[0] != "end":
        what, times = message
        start = time.process_time()
        for _ in range(times):
            if what == "steps":
                if state.step % ASK_EVERY == 0:
                    world.max(0)
                batch = loader(state.step)
                training_step(method, model, state, batch, torch.autograd.backward, settings.precision)
            if what == "sum":
                world.sum(gradients)
            if what == "any":
                world.max(0)
        pipe.send(time.process_time() - start)
    if world.size > 1:
        dist.destroy_process_group()
