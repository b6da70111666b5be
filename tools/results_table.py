"""`python tools/results_table.py RUN ...`: finished runs as a Markdown table, mean ± standard error over seeds.

Runs that differ in nothing but their seed make a row; a column shows each setting in which rows of one method on one
data set differ. A setting that an older configuration does not have yet tells no runs apart.

`--paired RUN ...` compares each method bam-M with M instead, seed by seed; `--pair BASE:OTHER RUN ...`, which may be
given several times, any two methods. Apart from the method and its own settings the compared runs must be alike.
"""

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel.settings import read_yaml
from surelabel.study.statistics import LEVEL, difference, mean

FIGURES = {"accuracy": "{:.1%}", "ece": "{:.3f}", "nll": "{:.2f}", "purity": "{:.0%}", "acceptance": "{:.0%}"}
HEADINGS = ("accuracy", "ECE", "NLL", "purity", "accepted")
# What a difference is multiplied by, its format, and the sign of a difference for the better.
DIFFERENCES = {
    "accuracy": (100, "{:+.1f}", 1),
    "ece": (1, "{:+.3f}", -1),
    "nll": (1, "{:+.3f}", -1),
    "purity": (100, "{:+.1f}", 1),
}
DIFFERENCE_HEADINGS = ("accuracy, points", "ECE", "NLL", "purity, points")
ALWAYS = ("data", "labels", "method")
# Which seed, where and on what a run was made is not what was run.
ASIDE = {"seed", "out", "threads", "device", "data_dir"}
# The parts of the settings that make a method what it is.
OWN = {"method", "fidelity", "selection", "target", "head"}


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in nothing but their seed: their settings, and their folders by seed."""

    config: dict[str, Any]
    folders: dict[int, Path]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Finished runs as a Markdown table.")
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument("--paired", action="store_true", help="compare each method bam-M with M, seed by seed")
    parser.add_argument("--pair", action="append", default=[], metavar="BASE:OTHER", help="compare these methods so")
    asked = parser.parse_args(arguments)
    pairs = [tuple(pair.split(":")) for pair in asked.pair]
    if any(len(pair) != 2 for pair in pairs):
        parser.error("--pair needs two methods, as in --pair uda:bam-uda")
    groups = grouped(asked.runs)
    if not (asked.paired or pairs):
        rows = [
            (group.config, [len(group.folders), *means([figures(folder) for folder in group.folders.values()])])
            for group in groups
        ]
        print(table(rows, ("seeds", *HEADINGS)))
        return
    if asked.paired:
        methods = {group.config["method"] for group in groups}
        pairs += [(method, f"bam-{method}") for method in sorted(methods) if f"bam-{method}" in methods]
        if not pairs:
            say("there is no method bam-M beside its M among these runs")
    print(
        f"Mean of the differences over the seeds that both have [its {LEVEL:.0%} confidence interval by Student's t], "
        "seeds improved / seeds.\n"
    )
    rows = [row for base, other in pairs for row in compared(groups, base, other)]
    print(table(rows, ("seeds", *DIFFERENCE_HEADINGS)))


def say(message: str) -> None:
    print(message, file=sys.stderr)


def grouped(folders: Iterable[Path]) -> list[Group]:
    groups: list[Group] = []
    # The fullest settings first: those that lack some then join the one group that they fit, if it is one.
    for folder, settings in sorted(finished(folders), key=lambda run: -len(run[1])):
        config = {key: value for key, value in settings.items() if key not in ASIDE}
        fitting = [group for group in groups if not unlike(group.config, config)]
        if len(fitting) != 1:
            fitting = [Group(config, {})]
            groups += fitting
        if (first := fitting[0].folders.setdefault(settings["seed"], folder)) != folder:
            say(f"{folder} is left out: {first} has the same settings and seed")
    return groups


def finished(folders: Iterable[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for folder in folders:
        if (folder / "result.json").exists():
            yield folder, read_yaml(folder / "config.yaml")
        else:
            say(f"{folder} is not finished")


def unlike(one: dict[str, Any], two: dict[str, Any], apart_from: Collection[str] = ()) -> list[str]:
    """The settings that both have and in which they differ, apart from these parts: 'steps (1000, 2000)'."""
    shared = [key for key in one if key in two and key.split(".")[0] not in apart_from]
    return [f"{key} ({one[key]}, {two[key]})" for key in shared if one[key] != two[key]]


def table(rows: Sequence[tuple[dict[str, Any], Sequence[Any]]], headings: Sequence[str]) -> str:
    """Markdown, a row for each (settings, cells): the settings that tell the rows apart, then the cells."""
    configs = [config for config, _ in rows]
    keys = dict.fromkeys(key for config in configs for key in config)
    named = [*ALWAYS, *(key for key in keys if key not in ALWAYS and differs(key, configs))]
    cells = sorted([*(str(config.get(key, "–")) for key in named), *map(str, values)] for config, values in rows)
    lines = ["| " + " | ".join(line) + " |" for line in ([*named, *headings], *cells)]
    return "\n".join([lines[0], "|---" * len([*named, *headings]) + "|", *lines[1:]])


def differs(key: str, configs: Iterable[dict[str, Any]]) -> bool:
    """Whether two rows that are otherwise named alike differ in this setting."""
    values: dict[tuple[Any, ...], set[str]] = {}
    for config in configs:
        if key in config:
            values.setdefault(tuple(config[name] for name in ALWAYS), set()).add(str(config[key]))
    return any(len(found) > 1 for found in values.values())


def figures(folder: Path) -> dict[str, Any]:
    """The averaged weights' figures on the whole test set, and the pool's in the last stretch of training."""
    averaged: dict[str, Any] = json.loads((folder / "result.json").read_text())["averaged"]
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    return averaged | {key: last[key] for key in ("purity", "acceptance")}


def means(runs: list[dict[str, Any]]) -> list[str]:
    return [mean([run[key] for run in runs], form) for key, form in FIGURES.items()]


def compared(groups: list[Group], base: str, other: str) -> list[tuple[dict[str, Any], list[Any]]]:
    """A row for every two groups of these methods that are alike; what keeps the rest apart goes to stderr."""
    bases, others = ([group for group in groups if group.config["method"] == name] for name in (base, other))
    for name, found in ((base, bases), (other, others)):
        if not found:
            say(f"{other} − {base}: there is no finished run of {name}")
            return []
    for mine, theirs in ((bases, others), (others, bases)):
        for group in mine:
            nearest = min((unlike(group.config, partner.config, OWN) for partner in theirs), key=len)
            if nearest:
                method = theirs[0].config["method"]
                say(f"{names(group)}: not compared, the nearest {method} differs in {', '.join(nearest)}")
    rows = []
    for one in bases:
        for two in others:
            if not unlike(one.config, two.config, OWN) and (seeds := common_seeds(one, two)):
                config = joined(one.config, two.config) | {"method": f"{other} − {base}"}
                rows.append((config, [len(seeds), *differences(one, two, seeds)]))
    return rows


def names(group: Group) -> str:
    return ", ".join(str(group.folders[seed]) for seed in sorted(group.folders))


def joined(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """The settings of both, '0.8, None' where they differ."""
    return one | two | {key: f"{one[key]}, {two[key]}" for key in one if key in two and one[key] != two[key]}


def common_seeds(base: Group, other: Group) -> list[int]:
    """The seeds that both have on the same labelled samples; the others are named on stderr."""
    for mine, theirs in ((base, other), (other, base)):
        if alone := sorted(mine.folders.keys() - theirs.folders.keys()):
            say(f"{theirs.config['method']} has no seed {', '.join(map(str, alone))} to compare with {names(mine)}")
    seeds = []
    for seed in sorted(base.folders.keys() & other.folders.keys()):
        splits = [json.loads((group.folders[seed] / "split.json").read_text()) for group in (base, other)]
        if splits[0] == splits[1]:
            seeds.append(seed)
        else:
            say(f"seed {seed} is left out: {base.folders[seed]} and {other.folders[seed]} differ in split.json")
    return seeds


def differences(base: Group, other: Group, seeds: list[int]) -> list[str]:
    pairs = [(figures(base.folders[seed]), figures(other.folders[seed])) for seed in seeds]
    cells = []
    for key, (scale, form, better) in DIFFERENCES.items():
        known = [(one[key], two[key]) for one, two in pairs if one[key] is not None and two[key] is not None]
        cells.append(difference([scale * (two - one) for one, two in known], form, better))
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
