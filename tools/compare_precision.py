"""Whether training in bf16 changes results: pairs of runs that differ only in their precision.

    python tools/compare_precision.py FOLDER [--tables]

Supervised, FixMatch and BAM-UDA with the laptop recipes on Fashion-MNIST with 40 labels and on crystals with 10 %, five
seeds each, as in the study `table1`. Runs are kept in FOLDER; the same command goes on. Prints the mean differences in
accuracy and ECE (bf16 - float32) with 95 % intervals by Student's t, and in how many seeds bf16 was better. For times
see `python -m bench precision`.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.config.settings import CONFIG
from surelabel.studies.statistics import difference
from surelabel.training.fit import fit
from surelabel.utils.literals import Precision

METHODS, SEEDS = ("supervised", "fixmatch", "bam-uda"), range(5)
PRECISIONS: tuple[Precision, ...] = ("32", "bf16-mixed")
BENCHMARKS: dict[str, tuple[str, int | str]] = {"Fashion-MNIST-40": ("fashion-mnist", 40), "PhC-10%": ("phc", "10%")}


def jobs(folder: Path) -> list[tuple[str, str, int, Precision, RunConfig]]:
    found: list[tuple[str, str, int, Precision, RunConfig]] = []
    for seed in SEEDS:
        for name, (data, labels) in BENCHMARKS.items():
            for method in METHODS:
                for precision in PRECISIONS:
                    config = replace(recipe(method, data, labels), seed=seed, threads=1, precision=precision)
                    out = folder / f"{method}-{data}-{seed}-{precision}"
                    found.append((name, method, seed, precision, replace(config, out=str(out))))
    return found


def run(config: RunConfig) -> dict[str, Any]:
    """The last metrics of a run; it is trained unless its record is there."""
    record = config.folder.with_suffix(".json")
    if not record.exists():
        fit(config, resume=(config.folder / CONFIG).exists(), console=Console(quiet=True))
        final = json.loads((config.folder / "result.json").read_text())["averaged"]
        record.write_text(json.dumps({key: final[key] for key in ("accuracy", "ece")}))
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def table(folder: Path) -> str:
    rows: dict[tuple[str, str], dict[str, dict[int, dict[str, Any]]]] = {}
    for name, method, seed, precision, config in jobs(folder):
        if config.folder.with_suffix(".json").exists():
            rows.setdefault((name, method), {}).setdefault(precision, {})[seed] = run(config)
    lines = ["| data | method | seeds | accuracy, points | ECE |", "|---|---|---|---|---|"]
    for (name, method), found in rows.items():
        plain, mixed = (found.get(precision, {}) for precision in PRECISIONS)
        seeds = sorted(plain.keys() & mixed.keys())
        if len(seeds) > 1:
            points = difference(
                [100 * (mixed[seed]["accuracy"] - plain[seed]["accuracy"]) for seed in seeds], "{:+.1f}", 1
            )
            ece = difference([mixed[seed]["ece"] - plain[seed]["ece"] for seed in seeds], "{:+.3f}", -1)
            lines.append(f"| {name} | {method} | {len(seeds)} | {points} | {ece} |")
    return "\n".join(lines)


def main(folder: str, *options: str) -> None:
    if "--tables" not in options:
        for *_, config in jobs(Path(folder)):
            run(config)
    print(table(Path(folder)))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
