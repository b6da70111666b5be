"""A step in float32 beside the same in bf16, by kind of network: what `devices.FASTER_IN_BF16` is decided by.

Pictures of 32 × 32, for the networks of large pictures 96 × 96, and rows of features, of noise; FixMatch unless said
otherwise. On a processor without instructions for bf16 the ratios only show that it should not be used there.
"""

from dataclasses import replace
from functools import partial

import torch

from bench.step import RUN, noise_data, noise_rows, whole_step
from bench.timing import Row, interleaved, several
from surelabel.config.recipes import recipe, table
from surelabel.config.run import Batch, Network, RunConfig
from surelabel.data.source import DataSet

STEPS, ROUNDS = 4, 9
SMALL = Batch(8, 2)


def run() -> list[Row]:
    torch.set_num_threads(1)
    laptop = {method: recipe(method, "cifar10", 250) for method in ("fixmatch", "bam-uda", "supervised", "paws")}
    images, large = noise_data(2000), noise_data(300, 96)
    rows = {width: noise_rows(2000, width) for width in (64, 1280)}
    features = replace(table("fixmatch", "custom"), network=Network("mlp-1-256", norm_momentum=0.1))
    further = replace(RUN, encoder="efficientnet-lite0", train_encoder=True, image_size=96, batch=SMALL)
    return [
        *(_row(f"{name} on pictures, laptop size", images, config) for name, config in laptop.items()),
        _row("WRN-28-2", images, RUN),
        _row("ResNet-18", images, replace(RUN, network=Network("resnet-18"))),
        _row("ResNet-50, 96 × 96", large, replace(RUN, network=Network("resnet-50"), batch=SMALL)),
        _row("EfficientNet-Lite0, 96 × 96", large, further),
        _row("small network on 64 columns", rows[64], table("fixmatch", "custom")),
        _row("small network on 1,280 features", rows[1280], features),
        _row("sure on 64 columns", rows[64], table("sure", "custom")),
    ]


def _row(what: str, data: DataSet, config: RunConfig) -> Row:
    """How many times as long a step takes in float32 as in bf16."""
    config = replace(config, data="custom", labels=100, device="cpu", threads=1)
    steps = {name: whole_step(data, replace(config, precision=name)) for name in ("32", "bf16-mixed")}
    timings = interleaved({name: partial(several, step, STEPS) for name, step in steps.items()}, ROUNDS)
    return timings.ratio(f"{what}: float32 / bf16", "32", "bf16-mixed")
