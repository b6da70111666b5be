"""`python tools/compare_methods.py CIFAR_DIR [METHOD ...]`: one run of each method, plain and Bayesian.

CIFAR-10 with 40 labels and the whole training set as the pool, described once at 224 pixels by a network that stays as
it is (EfficientNet-Lite0), and 3,000 steps of a small network on these features; one seed, which is in no table. Each
finished run is a line of `results/methods.jsonl`, and is not run again; the table of all lines is in
`results/methods.md`. `--out` is another folder, `--set KEY=VALUE` other settings.
"""

import argparse
import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

from rich.console import Console

from surelabel.config.methods import METHODS
from surelabel.config.recipes import pictures
from surelabel.config.run import RunConfig
from surelabel.config.settings import with_settings
from surelabel.inference.trained_run import fit

SEED = 1000
FIRST = ("supervised", "uda", "fixmatch")
REST = [name for name in METHODS if f"bam-{name}" in METHODS and name not in (*FIRST, "pseudo-label", "paws")]
DEFAULT = [name for plain in (*FIRST, *REST) for name in (plain, f"bam-{plain}") if name in METHODS]
# Key, heading and format of the metrics.
COLUMNS = {
    "accuracy": ("accuracy", "{:.1%}"),
    "ece": ("ECE", "{:.3f}"),
    "nll": ("NLL", "{:.2f}"),
    "purity": ("purity", "{:.0%}"),
    "acceptance": ("accepted", "{:.0%}"),
    "effective_classes": ("classes in effect", "{:.1f}"),
    "seconds": ("seconds of a core", "{:.0f}"),
    "lines": ("lines of its file", "{}"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_dir", metavar="CIFAR_DIR")
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the runs")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    compare(options.methods or DEFAULT, options.out, {"data_dir": options.data_dir} | settings)


def compare(methods: list[str], out: Path, settings: dict[str, Any]) -> None:
    """Run the methods that have no line yet, and write the table."""
    out.mkdir(parents=True, exist_ok=True)
    lines = out / "methods.jsonl"
    done = lines.read_text().splitlines() if lines.exists() else []
    finished = {json.loads(line)["method"] for line in done}
    for method in methods:
        if method not in finished:
            row = measured(with_settings(config(method), settings))
            with lines.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    (out / "methods.md").write_text(table(rows))


def config(method: str) -> RunConfig:
    made = pictures(method, "cifar10", 40, "efficientnet-lite0")
    return replace(made, seed=SEED, steps=3000, threads=1, evaluation=replace(made.evaluation, every=0.025))


def measured(run: RunConfig) -> dict[str, Any]:
    """What a run comes to: on the whole test set, and of its pseudo-labels at the last evaluation."""
    done = fit(run, save=False, console=Console(quiet=True))
    last, final = done.history[-1], done.metrics["averaged"]
    return {
        "method": run.method,
        "seed": run.seed,
        **{key: final[key] for key in ("accuracy", "ece", "nll")},
        **{key: last[key] for key in ("purity", "acceptance", "effective_classes")},
        "seconds": round(cpu_seconds(run), 1),
    }


def cpu_seconds(run: RunConfig) -> float:
    """Of one core for all steps, from some of them: others may use the machine too."""
    marks: list[tuple[int, float]] = []
    every = max(1, run.steps // 20)
    some = replace(run, steps=2 * every, evaluation=replace(run.evaluation, every=every, samples=100))
    fit(some, save=False, console=Console(quiet=True), watch=lambda row: marks.append((row["step"], process_time())))
    (first, begin), (last, end) = marks
    return (end - begin) / (last - first) * run.steps


def table(rows: list[dict[str, Any]]) -> str:
    """Each method with a Bayesian head below its plain one."""
    order = {name: number for number, name in enumerate(dict.fromkeys([*DEFAULT, *METHODS]))}
    headings = ["method", *(heading for heading, _ in COLUMNS.values())]
    lines = [headings, ["---"] * len(headings)]
    for row in sorted(rows, key=lambda row: order.get(row["method"], len(order))):
        known = row | {"lines": lines_of(row["method"])}
        cells = ["–" if known[key] is None else form.format(known[key]) for key, (_, form) in COLUMNS.items()]
        lines.append([f"`{row['method']}`", *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def lines_of(method: str) -> int:
    """Of the file that the method is in."""
    file = import_module(METHODS[method.partition("+")[0]].partition(":")[0]).__file__
    assert file is not None
    return len(Path(file).read_text().splitlines())


if __name__ == "__main__":
    main()
