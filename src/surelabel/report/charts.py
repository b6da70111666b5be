"""Reliability diagrams and training curves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from surelabel.equations import Groups
from surelabel.inference.trust import Accepted
from surelabel.report.palette import LIGHT, line_style
from surelabel.report.svg import styled

TRUST_LINES = {"expected": "precision", "at least, with 95 % certainty": "least"}  # name, and what of `Accepted`


@dataclass(frozen=True)
class Line:
    """A line of a chart: a name, and a value (None if missing) for each step."""

    name: str
    steps: Sequence[float]
    values: Sequence[float | None]

    @property
    def drawable(self) -> bool:
        return any(value is not None for value in self.values)


@styled
def curves(lines: Sequence[Line], percent: bool) -> Figure:
    """Values over training steps, in the styles of `palette.line_style`; `percent` shows 0 to 1 as 0 to 100 %."""
    figure = Figure(figsize=(3.3, 2.2), layout="constrained")
    axes = figure.subplots()
    for number, line in enumerate(lines):
        colour, dashes = line_style(number)
        values = np.array([np.nan if value is None else value for value in line.values])
        # A line would not show a single evaluation.
        marker = "o" if np.isfinite(values).sum() == 1 else None
        # Clipping would cut a line along an edge, such as an acceptance of zero.
        axes.plot(
            line.steps, values, color=LIGHT[colour], linestyle=dashes, linewidth=1.7, marker=marker, markersize=4,
            clip_on=False,
        )  # fmt: skip
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if percent:
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    elif all(value is None or value >= 0 for line in lines for value in line.values):
        axes.set_ylim(bottom=0)
    return figure


@styled
def trust_curve(curve: Sequence[Accepted], pool: int, wanted: Accepted) -> Figure:
    """The share of right samples, expected and at least, against how many of the most confident are accepted.

    The lines are `TRUST_LINES`; dots mark what is accepted at the precision that was asked for.
    """
    figure = Figure(figsize=(4.0, 2.8), layout="constrained")
    axes = figure.subplots()
    counts = [point.count for point in curve]
    for number, key in enumerate(TRUST_LINES.values()):
        colour, dashes = line_style(number)
        values = [getattr(point, key) for point in curve]
        axes.plot(counts, values, color=LIGHT[colour], linestyle=dashes, linewidth=1.7)
        if wanted.count:
            axes.plot(wanted.count, getattr(wanted, key), "o", color=LIGHT[colour], markersize=6, clip_on=False)
    lowest = min(curve[-1].precision, curve[-1].least, wanted.least if wanted.count else 1)
    bottom = max(0, np.floor(10 * lowest - 1) / 10)  # the bound of the first few is near zero, and left out
    axes.set(
        xlabel="samples accepted, the most confident first", ylabel="of them right", xlim=(0, pool),
        ylim=(bottom, 1 + 0.02 * (1 - bottom)),
    )  # fmt: skip
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


@styled
def reliability(bins: Groups) -> Figure:
    """Accuracy and number of predictions in each confidence bin. bins: Groups of [M]."""
    figure = Figure(figsize=(4.0, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    draw_bars(upper, bins)
    draw_counts(lower, bins)
    return figure


def draw_bars(axes: Axes, bins: Groups) -> None:
    size, confidence, correct = (sums.numpy() for sums in bins)
    held = size > 0
    centre, width = (np.arange(len(size)) + 0.5) / len(size), 0.94 / len(size)
    accuracy, confidence = correct[held] / size[held], confidence[held] / size[held]
    axes.bar(centre[held], accuracy, width, color=LIGHT["s1"], label="accuracy")
    axes.bar(
        centre[held], confidence - accuracy, width, accuracy, facecolor="none", edgecolor=LIGHT["s2"],
        linewidth=0.8, hatch="////", label="gap to its confidence",
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=LIGHT["quiet"], linestyle="dashed", linewidth=1, label="perfect calibration")
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1))


def draw_counts(axes: Axes, bins: Groups) -> None:
    size = bins.size.numpy()
    centre = (np.arange(len(size)) + 0.5) / len(size)
    axes.bar(centre, size / size.sum(), 0.94 / len(size), color=LIGHT["quiet"])
    for place, count in zip(centre, size, strict=True):
        if count:
            axes.annotate(
                compact(int(count)), (place, count / size.sum()), (0, 2), textcoords="offset points", ha="center",
                fontsize=7, color=LIGHT["ink"],
            )  # fmt: skip
    axes.set(ylim=(0, 1.15 * float(size.max() / size.sum())), xlabel="confidence", ylabel="predictions")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(2))


def compact(count: int) -> str:
    """A count in at most five characters: 9,876, 98.8k or 1.2M."""
    if count < 10_000:
        return f"{count:,}"
    if count < 999_950:
        return f"{count / 1000:.1f}k" if count < 99_950 else f"{count / 1000:.0f}k"
    return f"{count / 1e6:.1f}M"
