"""Which part of a study is asked for, and with which settings: `--data`, `--seeds` and `--set`."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

from surelabel.config import OF_THE_MACHINE, Run
from surelabel.errors import UserError
from surelabel.settings import flatten
from surelabel.study.plan import Cell, Job, changed
from surelabel.validate import validate

# What makes two runs of a study different ones whose other settings may differ too.
IDENTITY = ("method", "data", "labels")


def chosen(cells: list[Cell], options: argparse.Namespace) -> list[Cell]:
    """The cells on the data sets asked for, with the settings changed that were asked for."""
    known = {job.run.data for cell in cells for _, job in cell.choices}
    if options.data and (wrong := set(options.data) - known):
        raise UserError(f"--data {min(wrong)}: this study has {', '.join(sorted(known))}")
    kept = [cell for cell in cells if not options.data or cell.choices[0][1].run.data in options.data]
    if not options.set:
        return kept
    runs = [job.run for cell in kept for _, job in cell.choices]
    settings = _settings(options.set, runs[0])
    _refuse_varied(settings, runs)
    return [
        replace(cell, choices=tuple((name, _changed(job, settings)) for name, job in cell.choices)) for cell in kept
    ]


def _changed(job: Job, settings: dict[str, Any]) -> Job:
    return replace(job, run=validate(changed(job.run, settings)))


def _settings(given: Sequence[str], run: Run) -> dict[str, Any]:
    """KEY=VALUE pairs, each of its type, and checked on one of the runs that it is for."""
    from surelabel.fit_options import parsed, split

    for word in given:
        if "=" not in word:
            raise UserError(f"--set {word}: write it as KEY=VALUE, such as --set steps=500")
    asked = split([f"--{word}" for word in given])
    if aside := asked.keys() & OF_THE_MACHINE:
        raise UserError(
            f"--set {min(aside)}: where and on what a run is made is no part of what it is, so its result would be "
            "taken for that of the run without it. Leave it out"
        )
    if "seed" in asked:
        raise UserError("--set seed: a study goes through the seeds from 0; --seeds says how many")
    typed = flatten(asdict(parsed(run, asked)))
    return {key: typed[key] for key in asked}


def _refuse_varied(settings: Mapping[str, Any], runs: Sequence[Run]) -> None:
    """What a study compares cannot be the same in all its runs."""
    flat = [flatten(asdict(run)) for run in runs]
    for key in settings:
        alike: dict[tuple[Any, ...], set[Any]] = {}
        for one in flat:
            same = () if key in IDENTITY else tuple(one[name] for name in IDENTITY)
            alike.setdefault(same, set()).add(one[key])
        varied = max(alike.values(), key=len)
        if len(varied) > 1:
            raise UserError(f"--set {key}: this study compares {', '.join(sorted(map(str, varied)))} of it")


def part_of(options: argparse.Namespace) -> str:
    """What tells a part of a study in the names of its files: 'phc-1seed-4e1f', a hash for changed settings."""
    words = list(options.data or [])
    if options.seeds:
        words.append(f"{options.seeds}seed" + ("s" if options.seeds > 1 else ""))
    if options.set:
        words.append(blake2b("\n".join(sorted(options.set)).encode(), digest_size=3).hexdigest())
    return "-".join(words)


def in_words(options: argparse.Namespace) -> str:
    parts = [
        f"Only on {', '.join(options.data)}." if options.data else "",
        f"Seeds: {options.seeds}." if options.seeds else "",
        f"With {', '.join(options.set)}." if options.set else "",
    ]
    return " ".join(part for part in parts if part)
