"""Plots of a crystal set: examples, class sizes, and bands and density of states of a crystal."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surelabel.phc.geometry import EPSILON_RANGE
from surelabel.phc.solver import GAP_BANDS, bands, widths
from surelabel.phc.store import CLASSES, EMBEDDED, CrystalSet, load
from surelabel.phc.zone import SIDE, stages
from surelabel.utils.errors import optional_import
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_COLOURS = ("#9aa5b1", "#7fb7d6", "#3d8fc4", "#1f5f99", "#0b2f5b")
_GAP_COLOUR = "#f4b942"
# Without symmetry, X differs from Y, and M from M' = (½, -½).
_CORNERS = {"Γ": (0.0, 0.0), "X": (0.5, 0.0), "Y": (0.0, 0.5), "M": (0.5, 0.5), "M'": (0.5, -0.5)}
_PATH = ("M'", "Γ", "X", "M", "Γ", "Y", "M")


def draw_pictures(out: Path, path: Path = EMBEDDED) -> list[Path]:
    """Plot a crystal set, by default the embedded one, into four files of a folder."""
    with optional_import("figures", "a picture"):
        from matplotlib.figure import Figure
    crystals = load(path)
    wide = np.flatnonzero(crystals.label == crystals.label.max())
    image = crystals.epsilon(wide[:1])[0]
    pictures = {
        "crystals": (_draw_examples, (8.0, 6.0)),
        "bands": (lambda figure, _: _draw_bands(figure, image), (8.0, 3.8)),
        "density": (lambda figure, _: _draw_density(figure, image), (8.0, 3.2)),
        "classes": (_draw_classes, (8.0, 3.4)),
    }
    written = []
    for name, (draw, size) in pictures.items():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure, crystals)
        written.append(Path(out) / f"phc-{name}.png")
        with atomic_write(written[-1], "wb") as file:
            figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
    return written


def _draw_examples(figure: "Figure", crystals: CrystalSet) -> None:
    axes = figure.subplots(len(CLASSES), 7)
    shown = None
    for number, row in enumerate(axes):
        for place, member in zip(row, np.flatnonzero(crystals.label == number), strict=False):
            shown = _show(place, crystals.epsilon(np.array([member]))[0])
            gap = crystals.gaps[member].max()
            place.set_title(f"{gap:.1f} %" if gap else "none", fontsize=8, pad=2)
        for place in row:
            place.set(xticks=[], yticks=[])
        row[0].set_ylabel(CLASSES[number], fontsize=10)
    if shown is not None:
        figure.colorbar(shown, ax=axes, label="permittivity ε", shrink=0.6)


def _draw_bands(figure: "Figure", image: NDArray[np.float64]) -> None:
    cell, diagram = figure.subplots(1, 2, width_ratios=(1, 2.2))
    _show(cell, image, cells=2)
    cell.set(xlabel="x / a", ylabel="y / a", title="four cells")
    corners = np.array([_CORNERS[name] for name in _PATH])
    legs = [np.linspace(start, stop, 40, endpoint=False) for start, stop in pairwise(corners)]
    points = np.concatenate([*legs, corners[-1:]])
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    frequencies = bands(image, points, GAP_BANDS)
    diagram.plot(length, frequencies, color=_COLOURS[3], linewidth=1.2)
    diagram.set_xticks(length[::40], _PATH)
    diagram.grid(axis="x", color="0.85")
    diagram.set(xlim=(0, length[-1]), ylim=(0, None), ylabel="frequency ωa / 2πc", title="TM bands")
    _mark_gaps(diagram, image, vertical=False)


def _draw_density(figure: "Figure", image: NDArray[np.float64]) -> None:
    axes = figure.subplots()
    side = 2 * SIDE  # even, since a row on k_y = 0 would count twice
    axis = (np.arange(side) + 0.5) / side - 0.5
    half = np.stack(np.meshgrid(axis, axis[side // 2 :], indexing="ij"), axis=-1).reshape(-1, 2)
    frequencies = bands(image, half, GAP_BANDS)
    # Above the bottom of the last band, higher bands would be missing.
    bins = np.linspace(0, frequencies[:, -1].min(), 121)
    density, _ = np.histogram(frequencies, bins)
    axes.stairs(density / len(half) / np.diff(bins), bins, fill=True, color=_COLOURS[2])
    axes.set(xlim=(0, bins[-1]), xlabel="frequency ωa / 2πc", ylabel="states per cell and unit frequency")
    axes.set_title("Density of states")
    _mark_gaps(axes, image, vertical=True)


def _draw_classes(figure: "Figure", crystals: CrystalSet) -> None:
    sizes, spread = figure.subplots(1, 2, width_ratios=(1, 1.2))
    bars = sizes.bar(CLASSES, crystals.counts(), color=_COLOURS)
    sizes.bar_label(bars, labels=[f"{count:,}" for count in crystals.counts()])
    sizes.set(ylabel="crystals", title="Classes")
    sizes.margins(y=0.12)
    sizes.tick_params(axis="x", labelsize=8)
    largest = crystals.gaps.max(axis=1)
    groups = [largest[crystals.label == number] for number in range(1, len(CLASSES))]
    spread.hist(groups, bins=np.arange(0, largest.max() + 1), stacked=True, color=_COLOURS[1:], label=CLASSES[1:])
    spread.set(yscale="log", xlabel="largest gap, percent of mid-gap", ylabel="crystals", title="Gaps that are open")
    spread.legend(fontsize=8, frameon=False)
    for axes in (sizes, spread):
        axes.spines[["top", "right"]].set_visible(False)


def _show(axes: "Axes", image: NDArray[np.float64], cells: int = 1) -> "AxesImage":
    low, high = EPSILON_RANGE
    extent = (0, cells, 0, cells)
    tiled = np.tile(image, (cells, cells))
    return axes.imshow(tiled.T, origin="lower", cmap="cividis", vmin=low, vmax=high, extent=extent)


def _mark_gaps(axes: "Axes", image: NDArray[np.float64], vertical: bool) -> None:
    """Shade the complete gaps over 1 %, labelled with their width in percent."""
    frequencies = bands(image, np.concatenate(stages()), GAP_BANDS)
    top, bottom = frequencies.max(axis=0), frequencies.min(axis=0)
    percent = widths(top, bottom)
    for number in np.flatnonzero(percent > 1):
        low, high = top[number], bottom[number + 1]
        label = f"{percent[number]:.1f} %"
        if vertical:
            axes.axvspan(low, high, color=_GAP_COLOUR, alpha=0.45, linewidth=0)
            axes.text((low + high) / 2, 0.9, label, transform=axes.get_xaxis_transform(), ha="center")
        else:
            axes.axhspan(low, high, color=_GAP_COLOUR, alpha=0.45, linewidth=0)
            axes.text(0.99, (low + high) / 2, label, transform=axes.get_yaxis_transform(), ha="right", va="center")
