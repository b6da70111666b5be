"""What a study is: runs, laid out in the cells of a table, with the paper's figures beside them."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from surelabel.config.recipes import SIZES
from surelabel.config.run import OF_THE_MACHINE, RunConfig
from surelabel.config.settings import flatten
from surelabel.config.validate import ignored_settings

SCALES = SIZES
FINETUNED = "finetune.lr"


@dataclass(frozen=True)
class Printed:
    """What the paper prints: accuracy in percent, ECE with its digits, and the benchmark where ours is another."""

    accuracy: float
    ece: str | None = None
    on: str = ""


@dataclass(frozen=True)
class Job:
    """A run, or, with a learning rate, the fine-tuning of a linear head that follows it."""

    run: RunConfig
    finetune: float | None = None

    @property
    def name(self) -> str:
        """In words: 'fixmatch on cifar10 with 250 labels, seed 0'."""
        head = "" if self.finetune is None else f", fine-tuned at {self.finetune:g}"
        return f"{self.run.method} on {self.run.data} with {self.run.labels} labels, seed {self.run.seed}{head}"

    def seeded(self, seed: int) -> "Job":
        return replace(self, run=replace(self.run, seed=seed))

    @property
    def before(self) -> "Job | None":
        """What has to be finished first."""
        return None if self.finetune is None else Job(self.run)


@dataclass(frozen=True)
class Cell:
    """Runs that differ in nothing but their seed; with several `choices`, the most accurate of them is shown.

    `turn` says when: all runs of an earlier turn come first. `compared` is the choice that differences are taken of,
    where it was set beforehand: the best one, chosen on the test set, would be flattered.
    """

    row: str
    column: str
    choices: tuple[tuple[str, Job], ...]
    seeds: int
    printed: Printed | None = None
    turn: int = 0
    compared: str | None = None


@dataclass(frozen=True)
class Study:
    """One table or figure. `place` is where the paper has it.

    `pairs` are rows that are compared seed by seed, the second with the first; every row is with `base`.

    `shows` is what there is beside its table: "curves" through training; the "correlation" of accuracy with ECE, points
    and coefficients; "groups" of classes by frequency, bars and a table; or "cost", curves and a table.
    """

    name: str
    what: str
    place: str
    cells: Callable[[str], list[Cell]] = lambda scale: []
    heading: str = "method"
    pairs: tuple[tuple[str, str], ...] = ()
    base: str | None = None
    rows: tuple[str, ...] = ()  # in the order of the table, where the runs come in another
    shows: Literal["curves", "correlation", "groups", "cost"] | None = None
    note: str = ""
    settings: bool = False  # rows are settings of one method, to compare on the same seeds

    def compared(self, rows: Iterable[str]) -> list[tuple[str, str]]:
        """The pairs, those with `base` among these rows included."""
        others = [] if self.base is None else [(self.base, row) for row in rows if row != self.base]
        return [*self.pairs, *others]


def jobs_of(cells: Iterable[Cell], seeds: int | None = None) -> list[Job]:
    """Every job once, in the order to run them: by turn, then seed by seed, so that half a study is a fair one."""
    placed = [
        (cell.turn, seed, job.seeded(seed))
        for cell in cells
        for seed in range(seeds or cell.seeds)
        for _, job in cell.choices
    ]
    ordered = [job for _, _, job in sorted(placed, key=lambda item: item[:2])]
    return list(dict.fromkeys(step for job in ordered for step in (job.before, job) if step is not None))


def changed(part: Any, settings: Mapping[str, Any]) -> Any:
    """A run, or a part of one, with some settings replaced by dotted name."""
    for key, value in settings.items():
        name, dot, rest = key.partition(".")
        part = replace(part, **{name: changed(getattr(part, name), {rest: value}) if dot else value})
    return part


def settings_of(job: Job) -> dict[str, Any]:
    """All settings of a job by dotted name, nothing left open; without where and on what it is run."""
    from surelabel.training.build import resolve

    flat = flatten(asdict(resolve(job.run)))
    kept = {key: value for key, value in flat.items() if key not in OF_THE_MACHINE}
    return kept if job.finetune is None else kept | {FINETUNED: job.finetune}


def key_of(settings: Mapping[str, Any]) -> str:
    """The name of a run in storage and results: a hash of what its settings change of the defaults.

    Only of that, so that a setting which is added later, and which an older run did without, changes no key; and only
    of settings that its method reads.
    """
    return hashlib.blake2b(json.dumps(non_defaults(settings), sort_keys=True).encode(), digest_size=8).hexdigest()


def non_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of these settings those that say something: not the default, and read by the method."""
    aside = OF_THE_MACHINE | ignored_settings(run_with(settings))
    plain = {key: _plain(value) for key, value in settings.items() if key not in aside}
    return {key: value for key, value in plain.items() if value != _plain(_defaults().get(key))}


def run_with(settings: Mapping[str, Any]) -> RunConfig:
    """The run that these settings are of, those that no run has left out."""
    made: RunConfig = changed(RunConfig(), {key: settings[key] for key in settings if key in _defaults()})
    return made


def diff(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """In what two runs differ: 'steps (1000, 2000)'."""
    first, second = non_defaults(one), non_defaults(two)
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    return [f"{key} ({one.get(key)}, {two.get(key)})" for key in keys]


def job_key(job: Job) -> str:
    return key_of(_briefly(job.seeded(0)) | {"seed": job.run.seed})


@cache
def _briefly(job: Job) -> dict[str, Any]:
    """What tells a job apart, as settings that have its key: seeds are many, and differ in nothing else."""
    settings = settings_of(job)
    return {key: settings[key] for key in non_defaults(settings)} | {"method": job.run.method}


def folder_name(job: Job) -> str:
    """Of a job's run folder and of its result, readable and unlike any other's."""
    return f"{Path(replace(job.run, out=None).folder).name}-{job_key(job)}"


@cache
def _defaults() -> dict[str, Any]:
    return flatten(asdict(RunConfig()))


def _plain(value: Any) -> Any:
    """250, 250.0 and "250" are one setting, however it was written."""
    if isinstance(value, bool) or value is None:
        return value
    try:
        return repr(float(value))
    except ValueError:
        return value
