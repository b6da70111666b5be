"""How far two processes, joined by gloo, are from one that trains the same run, after 30 steps.

The relative distance of all weights and running statistics. Sums over processes round differently; in float32, an
activation at the kink of a ReLU then gets the other slope, or a pseudo-label at the threshold is accepted in one run
only.
"""

import tempfile
from dataclasses import replace
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from bench.step import noise_data
from bench.timing import Row
from surelabel.config.recipes import recipe
from surelabel.config.run import Batch, Paws, RunConfig
from surelabel.methods.base import Pool
from surelabel.training import build, build_data
from surelabel.training.loop import training_step
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.literals import Precision

METHODS = ("supervised", "fixmatch", "bam-uda", "bam-flexmatch", "paws", "bam-paws+ema")
STEPS = 30


def run() -> list[Row]:
    runs = {
        f"{method}, {precision} bits": replace(
            recipe(method, "cifar10", 250), device="cpu", threads=1, precision=precision, steps=STEPS,
            batch=Batch(8, 2), paws=Paws(16, per_class=2, support_views=1, small_crops=2),
        )
        for method in METHODS
        for precision in cast("tuple[Precision, ...]", ("64", "32"))
    }  # fmt: skip
    alone = {name: trained(settings, ALONE) for name, settings in runs.items()}
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_rank, (runs, folder), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]
        both = torch.load(f"{folder}/weights.pt", weights_only=True)
    return [
        Row(f"{name}: two processes from one", float((both[name] - one).norm() / one.norm()), "of the norm")
        for name, one in alone.items()
    ]


def trained(settings: RunConfig, world: World) -> Tensor:
    """All weights and running statistics after the steps, in one vector."""
    torch.set_num_threads(1)
    settings, data = build.resolve(replace(settings, devices=world.size)), noise_data(1000)
    method = build.build_method(settings, len(data.train))
    loader = build.build_loader(settings, data, build_data.build_split(settings, data), world=world)
    network = build.build_network(settings, build_data.task_of(data))
    state = build.build_state(settings, network, method, Pool.of(loader))
    model = state.network if world.size == 1 else DistributedDataParallel(state.network)
    model.train()
    for _ in range(STEPS):
        training_step(method, model, state, loader(state.step), torch.autograd.backward, settings.precision)
    return torch.cat([value.flatten().double() for value in state.network.state_dict().values()])


def _rank(rank: int, runs: dict[str, RunConfig], folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    found = {name: trained(settings, World(rank, 2)) for name, settings in runs.items()}
    if rank == 0:
        torch.save(found, f"{folder}/weights.pt")
    dist.destroy_process_group()
