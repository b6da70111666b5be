"""How the cost grows with the samples in the pool, the classes, the labels, the pixels of an image and M.

Each curve varies one of them and leaves the rest as it is, on one thread and on noise: what samples show does not
matter to their speed. The sizes of a curve take turns, and the exponent of a power law is fitted to each turn; times
are the thread's own, without those in which the machine did something else. With GROWTH_FIGURE=FILE.svg the curves are
drawn too (needs the extra `figures`).
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bench.step import noise_data, noise_rows, whole_step
from bench.timing import Row, Timings, interleaved, median_interval, several
from surelabel.config.recipes import recipe, table
from surelabel.config.run import Batch, Head, RunConfig
from surelabel.models.heads import Bayesian, BayesianHead
from surelabel.report.palette import LIGHT, line_style
from surelabel.report.svg import picture, styled
from surelabel.training import build, build_data

ROUNDS = 9
Work = Callable[[], object]


@dataclass(frozen=True)
class Curve:
    """Work of different sizes. `panel` is what varies, `target` what the exponent of its growth should be."""

    panel: str
    name: str
    sizes: Sequence[int]
    make: Callable[[int], Work]
    times: int = 1  # how often in one timing
    target: str = "at most 1"


def curves() -> list[Curve]:
    pools, labels = (1_000, 10_000, 100_000, 1_000_000), (40, 400, 4_000, 40_000)
    classes, samples = (10, 30, 100, 300, 1000), (10, 30, 100, 300, 1000)
    return [
        Curve("samples in the pool", "FixMatch step", pools, partial(_pool, "fixmatch"), 10, "0"),
        Curve("samples in the pool", "FlexMatch step", pools, partial(_pool, "flexmatch"), 10, "0"),
        Curve("samples in the pool", "FineSSL step", pools, partial(_pool, "finessl-margin"), 10, "0"),
        Curve("samples in the pool", "sure, before its first step", (1_000, 2_000, 4_000, 8_000, 16_000), _before_sure),
        Curve("classes", "BAM-UDA step", classes, _classes, 2),
        Curve("classes", "prediction in closed form", classes, _prediction, 2),
        Curve("labels", "FixMatch step", labels, _labels, 10, "0"),
        Curve("labels", "sure, before its first step", (40, 120, 400, 1200), _labels_of_sure),
        Curve("pixels of an image", "FixMatch step, WRN-10-2", tuple(side**2 for side in (16, 32, 64, 96)), _pixels),
        Curve("M, samples of the head", "BAM-UDA step, 100 classes", samples, _draws),
    ]


def run() -> Iterator[Row]:
    torch.set_num_threads(1)
    found = []
    for curve in curves():
        timings = measured(curve)
        found.append((curve, timings))
        yield from rows(curve, timings)
    if file := os.environ.get("GROWTH_FIGURE"):
        Path(file).write_bytes(picture(figure(found), "svg", background=LIGHT["page"]))


def measured(curve: Curve) -> Timings:
    """Seconds of one call at each size."""
    works = {str(size): partial(several, curve.make(size), curve.times) for size in curve.sizes}
    timings = interleaved(works, ROUNDS, time.process_time)
    return Timings({size: [time / curve.times for time in times] for size, times in timings.rounds.items()})


def rows(curve: Curve, timings: Timings) -> list[Row]:
    """The seconds at each size, the largest beside the smallest, and the exponent over all and over the last sizes."""
    low, high = curve.sizes[0], curve.sizes[-1]
    what = f"{curve.name}, {curve.panel}"
    every, last = (exponents(timings, sizes) for sizes in (curve.sizes, curve.sizes[-2:]))
    return [
        *[Row(f"{what}: {size:,}", 1000 * timings[str(size)], "ms") for size in curve.sizes],
        timings.ratio(f"{what}: {high:,} / {low:,}", str(high), str(low)),
        Row(f"{what}: exponent", statistics.median(every), "", curve.target, median_interval(every)),
        Row(f"{what}: of the last two", statistics.median(last), "", curve.target, median_interval(last)),
    ]


def exponents(timings: Timings, sizes: Sequence[int]) -> list[float]:
    """For each round the slope of log seconds over log size, by least squares."""
    logs = np.log(sizes)
    return [
        float(np.polyfit(logs, np.log(times), 1)[0])
        for times in zip(*(timings.rounds[str(size)] for size in sizes), strict=True)
    ]


def _on_rows(method: str, labels: int) -> RunConfig:
    return replace(table(method, "custom", labels), device="cpu", threads=1)


def _pool(method: str, size: int) -> Work:
    return whole_step(noise_rows(size, 4), _on_rows(method, 40))


def _labels(size: int) -> Work:
    return whole_step(noise_rows(50_000, 4), _on_rows("fixmatch", size))


def _before_sure(size: int, labels: int = 40) -> Work:
    """Its loader: principal components, the pool's neighbours, linear models."""
    data, config = noise_rows(size, 64), build.resolve(_on_rows("sure", labels))
    labelled = build_data.build_split(config, data)
    return lambda: build.build_loader(config, data, labelled)


def _labels_of_sure(size: int) -> Work:
    return _before_sure(3_000, size)


def _classes(size: int) -> Work:
    return whole_step(noise_rows(10_000, 64, size), _on_rows("bam-uda", size))


def _prediction(size: int) -> Work:
    head = BayesianHead(128, size, Bayesian(sampling="closed-form"))
    features = torch.randn(112, 128)
    return lambda: head.expected(features)


def _draws(size: int) -> Work:
    config = replace(_on_rows("bam-uda", 100), head=Head(samples=size))
    return whole_step(noise_rows(10_000, 64, 100), config)


def _pixels(size: int) -> Work:
    side = round(size**0.5)
    config = replace(recipe("fixmatch", "cifar10", 40), data="custom", batch=Batch(4, 7), device="cpu", threads=1)
    return whole_step(noise_data(200, side), config)


@styled
def figure(found: Sequence[tuple[Curve, Timings]]) -> Figure:
    """A panel for each thing that varies, on logarithmic axes, with exponents; the grey lines are linear growth."""
    panels = list(dict.fromkeys(curve.panel for curve, _ in found))
    drawing = Figure(figsize=(7.4, 2.6 * -(-len(panels) // 2)), layout="constrained")
    places = list(drawing.subplots(-(-len(panels) // 2), 2, squeeze=False).flat)
    for panel, axes in zip(panels, places, strict=False):
        _draw(axes, panel, [(curve, timings) for curve, timings in found if curve.panel == panel])
    for axes in places[len(panels) :]:
        axes.remove()
    return drawing


def _draw(axes: Axes, panel: str, found: Sequence[tuple[Curve, Timings]]) -> None:
    axes.set(xscale="log", yscale="log", xlabel=panel, ylabel="ms")
    for number, (curve, timings) in enumerate(found):
        colour, dashes = line_style(number)
        times = [1000 * timings[str(size)] for size in curve.sizes]
        exponent = round(statistics.median(exponents(timings, curve.sizes)), 2) + 0.0  # no minus zero
        axes.plot(
            curve.sizes, times, linestyle=dashes, color=LIGHT[colour], marker="o", markersize=3.5,
            label=f"{curve.name}: {exponent:.2f}",
        )  # fmt: skip
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    for start in np.geomspace(low * left / right, high, 12):
        axes.plot((left, right), (start, start * right / left), color=LIGHT["rule"], linewidth=0.6, zorder=0)
    axes.set(xlim=(left, right), ylim=(low, high))
    axes.grid(visible=False)
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.legend(frameon=False, fontsize=7.5, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
