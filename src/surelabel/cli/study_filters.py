"""The options of `surelabel study` that select runs and change settings: --data, --seeds, --set."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

from surelabel.cli.fit import EXTRA, read_assignments
from surelabel.config.recipes import RELEASED
from surelabel.config.run import OF_THE_MACHINE, RunConfig
from surelabel.config.settings import changed, flatten, with_settings
from surelabel.config.validate import ignored_settings, validate
from surelabel.studies.plan import Cell, Job
from surelabel.utils.errors import UserError

# Runs that differ in one of these may differ in other settings too.
IDENTITY = ("method", "data", "labels")


def chosen(cells: list[Cell], options: argparse.Namespace) -> list[Cell]:
    """The cells on the data sets of --data, with the settings of --set."""
    known = {job.config.data for cell in cells for _, job in cell.choices}
    if options.data and (wrong := set(options.data) - known):
        raise UserError(f"--data {min(wrong)}: this study has {', '.join(sorted(known))}")
    kept = [cell for cell in cells if not options.data or cell.choices[0][1].config.data in options.data]
    if not options.set or not kept:
        return kept
    configs = [job.config for cell in kept for _, job in cell.choices]
    settings = _settings(options.set, configs[0])
    _check_constant(settings, configs)
    if settings.get("fidelity") == "released":
        _check_constant(RELEASED, configs, "fidelity")
    made = [
        replace(cell, choices=tuple((name, _changed(job, settings)) for name, job in cell.choices)) for cell in kept
    ]
    _check_all_read(settings, [job.config for cell in made for _, job in cell.choices])
    return made


def _changed(job: Job, settings: Mapping[str, Any]) -> Job:
    if settings.get("fidelity") == "released" and "fidelity" not in ignored_settings(job.config):
        settings = RELEASED | dict(settings)  # as `surelabel fit --fidelity released` does
    return replace(job, config=validate(changed(job.config, settings)))


def _settings(given: Sequence[str], config: RunConfig) -> dict[str, Any]:
    """Parse KEY=VALUE pairs and check them on one of the runs."""
    asked = read_assignments(given, "--set")
    if known := asked.keys() & EXTRA.keys():
        instead = "; --scale paper makes runs of the paper's size" if "size" in known else ""
        raise UserError(f"--set {min(known)}: this is not a setting of a run{instead}")
    if fixed := asked.keys() & set(IDENTITY):
        raise UserError(f"--set {min(fixed)}: a study sets the method, the data and the labels itself; leave it out")
    if aside := asked.keys() & OF_THE_MACHINE:
        raise UserError(
            f"--set {min(aside)}: settings of the machine are not part of a run's identity, so the result would "
            "count as that of the run without it. Leave it out"
        )
    if "seed" in asked:
        raise UserError("--set seed: a study uses the seeds 0, 1, ...; set their number with --seeds")
    with_settings(config, asked)
    return asked


def _check_constant(settings: Mapping[str, Any], configs: Sequence[RunConfig], asked: str | None = None) -> None:
    """Raise if the study varies one of these settings, which the setting `asked` may imply."""
    flat = [flatten(asdict(config)) for config in configs]
    for key in settings:
        alike: dict[tuple[Any, ...], set[Any]] = {}
        for one in flat:
            alike.setdefault(tuple(one[name] for name in IDENTITY), set()).add(one[key])
        varied = max(alike.values(), key=len)
        if len(varied) > 1:
            of = "it" if asked is None else key
            raise UserError(f"--set {asked or key}: this study compares {', '.join(sorted(map(str, varied)))} of {of}")


def _check_all_read(settings: Mapping[str, Any], configs: Sequence[RunConfig]) -> None:
    """Raise if no run reads a setting: the old runs would appear under a new heading."""
    idle = set(settings).intersection(*map(ignored_settings, configs))
    if idle:
        raise UserError(f"--set {min(idle)} has no effect on any run of this study: leave it out")


def part_of(options: argparse.Namespace) -> str:
    """A suffix for the files of a partial study: 'phc-1seed-4e1f', with a hash of --set."""
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
