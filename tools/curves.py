"""`python tools/curves.py -o FILE.svg RUN ...`: accuracy and ECE through training, mean over seeds, a line a method."""

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from surelabel.files import atomic_write
from surelabel.settings import read_yaml

FIGURES = {"accuracy": "accuracy", "ece": "ECE"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--smooth", type=int, default=1, help="evaluations in a running mean (default: 1)")
    options = parser.parse_args()
    with atomic_write(options.out, "wb") as file:
        draw(options.runs, options.smooth).savefig(file, format=options.out.suffix[1:], bbox_inches="tight")


def draw(runs: list[Path], smooth: int) -> Figure:
    """A row for each data set, a column for each figure."""
    lines: dict[str, dict[str, list[list[dict[str, float]]]]] = {}
    for run in runs:
        config = read_yaml(run / "config.yaml")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        lines.setdefault(f"{config['data']}, {config['labels']} labels", {}).setdefault(config["method"], []).append(
            rows
        )
    made = Figure(figsize=(9, 3 * len(lines)), layout="constrained")
    for axes, (data, methods) in zip(made.subplots(len(lines), 2, squeeze=False), lines.items(), strict=True):
        for place, (key, name) in zip(axes, FIGURES.items(), strict=True):
            for method, seeds in sorted(methods.items()):
                steps = [row["step"] for row in seeds[0]]
                values = np.array([[row[key] for row in rows] for rows in seeds])
                mean = np.apply_along_axis(_running_mean, 1, values, smooth).mean(0)
                place.plot(steps, mean, label=f"{method} ({len(seeds)} seeds)", linewidth=1.5)
            place.set(xlabel="step", ylabel=name, title=data)
            place.grid(alpha=0.3)
        axes[0].legend(fontsize=8)
    return made


def _running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """The mean of each value and up to width - 1 before it."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(0, last - width)
    return (sums[last] - sums[first]) / (last - first)


if __name__ == "__main__":
    main()
