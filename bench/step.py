"""One FixMatch step of WRN-28-2 with B = 16, µ = 7 on two threads: what it costs beside the bare network."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from bench.timing import Row, interleaved
from surelabel.config.run import Batch, RunConfig
from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.source import DataSet
from surelabel.equations import labelled_cross_entropy
from surelabel.methods.base import Pool
from surelabel.models.network import Network, normalised_by
from surelabel.training import build, build_data
from surelabel.training.loop import training_step

RUN = RunConfig(method="fixmatch", labels=250, batch=Batch(16, 7), device="cpu", threads=2)


def run() -> list[Row]:
    torch.set_num_threads(2)
    data = noise_data(50_000)
    plain = replace(RUN, precision="32")  # as the bare network and the ports
    seconds = interleaved(
        {
            "bare": _bare(data),
            "split": whole_step(data, plain),
            "joint": whole_step(data, replace(plain, forward="joint")),
            "port": _as_existing_ports(data),
        },
        rounds=7,
    )
    # By themselves: beside candidates that use much memory, the order of the turns would show.
    pools = interleaved({size: whole_step(noise_data(int(size)), plain) for size in ("50000", "100000")}, rounds=9)
    images = RUN.batch.labelled * (1 + RUN.batch.ratio)
    speeds = {
        "bare": "forwards and backward alone, on ready tensors",
        "split": "a whole step: views, split forward, loss, optimizer, average",
        "joint": "the same with one joint pass",
        "port": "one joint pass, channels first, gradients on everything",
    }
    return [
        *[Row(what, images / seconds[name], "images/s") for name, what in speeds.items()],
        Row("whole step / bare network", seconds["split"] / seconds["bare"], "x the time", "at most 1.1"),
        Row(
            "joint pass, channels first / whole step", seconds["port"] / seconds["split"], "x the time", "at least 1.5"
        ),
        Row("our joint step / whole split step", seconds["joint"] / seconds["split"], "x the time"),
        Row("pool of 100,000 / pool of 50,000", pools["100000"] / pools["50000"], "x the time", "1"),
    ]


def noise_data(images: int, side: int = 32) -> DataSet:
    """Images, by default of CIFAR's shape: what they show does not matter to their speed."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (images, 3, side, side), dtype=np.uint8)
    return user_data_set("noise", ArraySource(pixels, np.arange(images) % 10, [str(k) for k in range(10)]), None)


def noise_rows(count: int, columns: int, classes: int = 10) -> DataSet:
    """Rows of normal numbers, of classes in turn."""
    numbers = np.random.default_rng(0).standard_normal((count, columns), dtype=np.float32)
    names = [str(number) for number in range(classes)]
    return user_data_set("noise", EmbeddingSource(numbers, np.arange(count) % classes, names), None)


def _network(data: DataSet) -> Network:
    return build.build_network(RUN, build_data.task_of(data)).train()


def whole_step(data: DataSet, run: RunConfig) -> Callable[[], None]:
    """One step as the loop takes it."""
    run = build.resolve(run)
    method = build.build_method(run, len(data.train))
    loader = build.build_loader(run, data, build_data.build_split(run, data))
    state = build.build_state(run, build.build_network(run, build_data.task_of(data)), method, Pool.of(loader))
    state.network.train()

    def step() -> None:
        training_step(method, state.network, state, loader(state.step), torch.autograd.backward, run.precision)

    return step


def _ready(images: int) -> torch.Tensor:
    return torch.randn(images, 3, 32, 32)


def _bare(data: DataSet) -> Callable[[], None]:
    """The weak pass without gradients, the labelled and strong pass with them, and nothing else."""
    network = _network(data)
    weak, learnt = (
        _ready(images).contiguous(memory_format=torch.channels_last)
        for images in (RUN.batch.labelled * RUN.batch.ratio, RUN.batch.labelled * (1 + RUN.batch.ratio))
    )
    labels = torch.zeros(len(learnt), dtype=torch.long)

    def step() -> None:
        with torch.no_grad(), normalised_by("running", network):
            network.head(network.backbone(weak))
        torch.autograd.backward(labelled_cross_entropy(network.head(network.backbone(learnt)), labels))

    return step


def _as_existing_ports(data: DataSet) -> Callable[[], None]:
    """Forward and backward of one pass over labelled, weak and strong, in torch's default memory format."""
    network = _network(data).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    images = _ready(RUN.batch.labelled * (1 + 2 * RUN.batch.ratio))
    labels = torch.zeros(len(images), dtype=torch.long)

    def step() -> None:
        torch.autograd.backward(labelled_cross_entropy(network.head(network.backbone(images)), labels))

    return step
