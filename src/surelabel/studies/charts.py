"""The charts of a study, drawn from its records."""

from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.long_tail import GROUPS
from surelabel.methods.schedules import ema_cosine, linear_warmup
from surelabel.report.palette import LIGHT, line_style
from surelabel.studies.layout import Filled, Layout, side_by_side
from surelabel.studies.plan import Study
from surelabel.utils.errors import optional_import
from surelabel.utils.files import atomic_write

with optional_import("study", "a study"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from surelabel.report.svg import picture, styled

METRICS = {
    "accuracy": "test accuracy",
    "ece": "test ECE",
    "purity": "purity of accepted",
    "pool_confidence": "confidence",
}
FORMATS = ("svg", "png")


def draw(study: Study, layout: Layout) -> Figure | None:
    """The study's chart, or None if it has none or no records yet."""
    if study.shows is None or not any(cell.records for cell in layout.cells.values()):
        return None
    drawers = {"curves": _curves, "correlation": _scatter, "groups": _groups, "cost": _curves}
    return drawers[study.shows](side_by_side(study, layout))


def save(figure: Figure, path: Path) -> list[Path]:
    """Write SVG and PNG files, with reproducible bytes; return their paths."""
    written = []
    for kind in FORMATS:
        written.append(path.with_name(f"{path.name}.{kind}"))
        with atomic_write(written[-1], "wb") as file:
            file.write(picture(figure, kind, background=LIGHT["page"]))
    return written


@styled
def _curves(layout: Layout) -> Figure:
    """One row per data set, one column per metric over training: mean and standard error."""
    shown = [key for key in METRICS if any(_history(cell, key) is not None for cell in layout.cells.values())]
    figure = Figure(figsize=(3.0 * len(shown) + 1.8, 2.8 * len(layout.columns)), layout="constrained")
    axes = figure.subplots(len(layout.columns), len(shown), squeeze=False)
    for line, column in zip(axes, layout.columns, strict=True):
        for place, key in zip(line, shown, strict=True):
            for number, row in enumerate(layout.rows):
                _plot_mean(place, layout.cells.get((row, column)), key, row, *line_style(number))
            place.set(xlabel="step", ylabel=METRICS[key])
        line[0].set_title(column, loc="left", fontsize=10)
        handles, labels = line[0].get_legend_handles_labels()
        if handles:  # beside the last axes: seven curves leave no room inside
            line[-1].legend(handles, labels, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


def _plot_mean(place: Axes, cell: Filled | None, key: str, label: str, colour: str, dashes: str) -> None:
    found = None if cell is None else _history(cell, key)
    if found is None:
        return
    steps, values = found
    middle = values.mean(axis=0)
    place.plot(steps, middle, color=LIGHT[colour], linestyle=dashes, linewidth=1.4, label=f"{label} ({len(values)})")
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(values.count(axis=0))
        place.fill_between(steps, middle - error, middle + error, color=LIGHT[colour], alpha=0.15, linewidth=0)


def _history(cell: Filled, key: str) -> tuple[Any, Any] | None:
    """Steps [n] and the metric [seeds, n], masked where missing; None if no run has it."""
    histories = [record["history"] for record in cell.records.values()]
    known = np.array([[row[key] for row in rows] for rows in histories], dtype=np.float64)
    values = np.ma.masked_invalid(known)
    return None if values.count() == 0 else (np.array([row["step"] for row in histories[0]]), values)


@styled
def _scatter(layout: Layout) -> Figure:
    """Accuracy against ECE: one point per setting (mean over shared seeds), its seeds faintly."""
    figure = Figure(figsize=(4.6 * len(layout.columns), 3.6), layout="constrained")
    for place, column in zip(figure.subplots(1, len(layout.columns), squeeze=False)[0], layout.columns, strict=True):
        seeds = layout.shared_seeds(column)
        for row in layout.rows:
            cell = layout.cells.get((row, column))
            if cell is None or not cell.records:
                continue
            ece, accuracy = (np.array(cell.metrics("final", key), dtype=np.float64) for key in ("ece", "accuracy"))
            place.scatter(ece, 100 * accuracy, s=8, color=LIGHT["s1"], alpha=0.25, linewidths=0)
            if seeds:
                at = cell.mean("ece"), 100 * cell.mean("accuracy")
                place.scatter(*at, s=28, color=LIGHT["s2"], zorder=3)
                place.annotate(row, at, xytext=(4, 3), textcoords="offset points", fontsize=7)
        place.set(xlabel="ECE", ylabel="test accuracy, %", title=column)
    return figure


@styled
def _groups(layout: Layout) -> Figure:
    """Bars of the accuracy on frequent, medium and rare classes."""
    figure = Figure(figsize=(4.2 * len(layout.columns), 3.2), layout="constrained")
    for place, column in zip(figure.subplots(1, len(layout.columns), squeeze=False)[0], layout.columns, strict=True):
        cells = [(row, layout.cells[row, column]) for row in layout.rows if layout.cells[row, column].records]
        names = [name for name in GROUPS if any(name in r["groups"] for _, c in cells for r in c.records.values())]
        for number, (row, cell) in enumerate(cells):
            values = np.array([[100 * r["groups"][name]["accuracy"] for name in names] for r in cell.records.values()])
            error = values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            at = np.arange(len(names)) + (number - (len(cells) - 1) / 2) * 0.8 / len(cells)
            place.bar(
                at,
                values.mean(0),
                0.8 / len(cells),
                yerr=error,
                ecolor=LIGHT["ink"],  # black would be invisible on a dark page
                color=LIGHT[line_style(number)[0]],
                label=row,
                capsize=3,
            )
        place.set(ylabel="test accuracy, %", title=column)
        place.set_xticks(range(len(names)), names)
        place.legend(fontsize=8, frameon=False)
    return figure


@styled
def schedules_figure(epochs: int = 600, warmup: int = 50, high: float = 0.996, low: float = 0.95) -> Figure:
    """The paper's two schedules of γ for PAWS+EMA: on CIFAR and on ImageNet."""
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    place = figure.subplots()
    steps = list(range(epochs + 1))
    fractions = [step / epochs for step in steps]
    place.plot(fractions, [linear_warmup(0, high, k, warmup) for k in steps], color=LIGHT["s1"],
               label=f"(1) CIFAR: linear to {high:g} in {warmup} of {epochs} epochs")  # fmt: skip
    place.plot(fractions, [ema_cosine(low, k, epochs) for k in steps], color=LIGHT["s2"],
               label=f"(2) ImageNet: one minus a cosine, {low:g} to 1")  # fmt: skip
    place.set(xlabel="share of training", ylabel="γ", ylim=(0, 1.05), xlim=(0, 1))
    place.legend(fontsize=8, frameon=False, loc="lower right")
    inner = place.inset_axes((0.45, 0.35, 0.5, 0.35))
    for line in place.get_lines():
        inner.plot(line.get_xdata(), line.get_ydata(), color=line.get_color())
    inner.set(xlim=(0, 1), ylim=(0.945, 1.002))
    inner.tick_params(labelsize=7)
    return figure
