"""What an averaged teacher adds to a PAWS step of WRN-28-2 on two threads.

A sixteenth of the CIFAR-10 recipe: a support of 10 classes × 4 images × 2 views, 2 large and 6 small views of 16
images. In units of one image's forward pass at 32 pixels, with a backward pass of 2 and small views of (18/32)² of the
work, a PAWS step is 3 · (80 + 32 + 96 · 0.316) = 427 and the teacher's pass 80 + 32 = 112: a ratio of 1.26 on paper.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from bench.step import noise_data, whole_step
from bench.timing import Row, interleaved
from surelabel.config.recipes import recipe
from surelabel.data.source import DataSet
from surelabel.methods.base import Pool
from surelabel.training import build, build_data

PAWS = recipe("paws", "cifar10", 4000, "paper")
RUN = replace(PAWS, device="cpu", threads=2, paws=replace(PAWS.paws, unlabelled=16, per_class=4))


def run() -> list[Row]:
    torch.set_num_threads(2)
    data = noise_data(50_000)
    runs = {
        "paws": RUN,
        "paws+ema": replace(RUN, method="paws+ema"),
        "bam-paws": replace(RUN, method="bam-paws"),
    }
    candidates: dict[str, Callable[[], object]] = {name: whole_step(data, run) for name, run in runs.items()}
    candidates |= _parts(data)
    seconds = interleaved(candidates, rounds=17)
    shares = {"pass": "the teacher's pass alone", "average": "updating the average alone", "views": "making the views"}
    return [
        replace(seconds.ratio("whole step, PAWS+EMA / PAWS", "paws+ema", "paws"), target="at most 1.25"),
        seconds.ratio("whole step, BAM-PAWS / PAWS", "bam-paws", "paws"),
        *[Row(what, 100 * seconds[name] / seconds["paws"], "% of a PAWS step") for name, what in shares.items()],
    ]


def _parts(data: DataSet) -> dict[str, Callable[[], object]]:
    run = build.resolve(replace(RUN, method="paws+ema"))
    loader = build.build_loader(run, data, build_data.build_split(run, data))
    network = build.build_network(run, build_data.task_of(data))
    state = build.build_state(run, network, build.build_method(run), Pool.of(loader))
    assert state.average is not None
    average = state.average
    images = torch.randint(0, 256, (112, 3, 32, 32), dtype=torch.uint8)

    @torch.no_grad()
    def teach() -> None:
        state.teacher(images)

    return {"pass": teach, "average": lambda: average.update_parameters(state.network), "views": lambda: loader(0)}
