"""Steps on features and tables beside the same steps in a plain form, which takes longer and does as well.

Plain is a random number for each column of a view (`PlainNoise`, `PlainCorrupt`), and float32 products by MKL
(`plain_products`). That results do not differ is shown by `python -m tools.compare_views`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from bench.step import noise_rows, whole_step
from bench.timing import Row, interleaved, several
from surelabel.config.recipes import pictures, table
from surelabel.config.run import RunConfig
from surelabel.methods import sure
from surelabel.training import build_views
from surelabel.utils import devices

STEPS, ROUNDS = 5, 25


@dataclass(frozen=True)
class PlainNoise:
    """`Noise`, from the normal quantile of a draw for each column."""

    std: float
    where: Tensor

    @property
    def draws(self) -> int:
        return len(self.where)

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        normal = torch.erfinv(2 * u - 1 + 2**-24) * 2**0.5
        return rows + self.std * self.where * normal


@dataclass(frozen=True)
class PlainCorrupt:
    """`Corrupt`, with a draw for each feature that says whether to replace it and by which row's."""

    probability: float
    table: Tensor
    groups: Tensor

    @property
    def draws(self) -> int:
        return int(self.groups[-1]) + 1

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        flat, size = u[:, self.groups].flatten(), len(self.table)
        places = (flat < self.probability).nonzero().squeeze(1)
        donors = (flat[places] / self.probability * size).long().clamp_max(size - 1)
        values = self.table.take(donors * rows.shape[1] + places % rows.shape[1])
        return rows.flatten().scatter(0, places, values).view_as(rows)


@contextmanager
def plain_views() -> Iterator[None]:
    """Views that are built in this context are plain."""
    with (
        patch.multiple(build_views, Noise=PlainNoise, Corrupt=PlainCorrupt),
        patch.multiple(sure, Noise=PlainNoise, Corrupt=PlainCorrupt),
    ):
        yield


def plain_products() -> AbstractContextManager[object]:
    """Products that are made in this context are MKL's."""
    return patch.object(devices, "_onednn_is_exact", lambda: False)


def run() -> Iterator[Row]:
    torch.set_num_threads(1)
    for method in ("fixmatch", "bam-uda"):
        yield from _rows(f"{method}, 1,280 features", 1280, replace(pictures(method, "custom"), encoder="none"))
    for columns in (64, 1280):
        yield from _rows(f"sure, {columns:,} columns", columns, table("sure", "custom"))


def _rows(what: str, columns: int, config: RunConfig) -> list[Row]:
    data, config = noise_rows(2000, columns), replace(config, labels=100, device="cpu", threads=1, precision="32")
    now = whole_step(data, config)
    with plain_views():
        before = whole_step(data, config)

    def by_mkl(step: Callable[[], None]) -> None:
        with plain_products():
            several(step, STEPS)

    candidates = {"plain": partial(by_mkl, before), "views": partial(by_mkl, now), "now": partial(several, now, STEPS)}
    timings = interleaved(candidates, ROUNDS, time.process_time)
    return [
        Row(f"{what}: a step", 1000 * timings["now"] / STEPS, "ms"),
        timings.ratio(f"{what}: plain / now", "plain", "now"),
        timings.ratio(f"{what}: MKL's products / now", "views", "now"),
    ]
