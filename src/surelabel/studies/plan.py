"""What a study is: the cells of a table, each with its runs and the paper's numbers."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from surelabel.config.recipes import SIZES
from surelabel.config.run import OF_THE_MACHINE, RunConfig
from surelabel.config.settings import changed, flatten
from surelabel.config.validate import ignored_settings

SCALES = SIZES
FINETUNED = "finetune.lr"


@dataclass(frozen=True)
class Printed:
    """The paper's accuracy in percent and ECE as printed; `on` is its benchmark if not ours."""

    accuracy: float
    ece: str | None = None
    on: str = ""


@dataclass(frozen=True)
class Job:
    """A run, or with `finetune`, a learning rate, the fine-tuning of that run."""

    config: RunConfig
    finetune: float | None = None

    @property
    def name(self) -> str:
        """'fixmatch on cifar10 with 250 labels, seed 0'."""
        head, config = "" if self.finetune is None else f", fine-tuned at {self.finetune:g}", self.config
        return f"{config.method} on {config.data} with {config.labels} labels, seed {config.seed}{head}"

    def seeded(self, seed: int) -> "Job":
        return replace(self, config=replace(self.config, seed=seed))

    @property
    def before(self) -> "Job | None":
        """The job that must be finished first."""
        return None if self.finetune is None else Job(self.config)


@dataclass(frozen=True)
class Cell:
    """Runs that differ only in their seed; of several named `choices` the most accurate is shown.

    Runs of a lower `turn` come first. `compared` is the choice to compute differences with, if set
    beforehand: the best one, chosen on the test set, would be flattered.
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
    """One table or figure; `place` is where it is in the paper.

    `pairs` are (base, other) rows to compare seed by seed; `base` is compared with every row.
    `shows` adds a chart and a table to the main table: training "curves", the "correlation" of
    accuracy with ECE, "groups" of classes by frequency, or "cost".
    """

    name: str
    what: str
    place: str
    cells: Callable[[str], list[Cell]] = lambda scale: []
    heading: str = "method"
    pairs: tuple[tuple[str, str], ...] = ()
    base: str | None = None
    rows: tuple[str, ...] = ()  # the order in the table, if not that of the runs
    shows: Literal["curves", "correlation", "groups", "cost"] | None = None
    note: str = ""
    settings: bool = False  # rows are settings of one method, compared on shared seeds

    def compared(self, rows: Iterable[str]) -> list[tuple[str, str]]:
        """All pairs to compare, those with `base` included."""
        others = [] if self.base is None else [(self.base, row) for row in rows if row != self.base]
        return [*self.pairs, *others]


def jobs_of(cells: Iterable[Cell], seeds: int | None = None) -> list[Job]:
    """All jobs, without duplicates, by turn and then by seed, so that half a study is fair."""
    placed = [
        (cell.turn, seed, job.seeded(seed))
        for cell in cells
        for seed in range(seeds or cell.seeds)
        for _, job in cell.choices
    ]
    ordered = [job for _, _, job in sorted(placed, key=lambda item: item[:2])]
    return list(dict.fromkeys(step for job in ordered for step in (job.before, job) if step is not None))


def settings_of(job: Job) -> dict[str, Any]:
    """All settings of a job by dotted name, resolved, without those of the machine."""
    from surelabel.training.build import resolve

    flat = flatten(asdict(resolve(job.config)))
    kept = {key: value for key, value in flat.items() if key not in OF_THE_MACHINE}
    return kept if job.finetune is None else kept | {FINETUNED: job.finetune}


def key_of(settings: Mapping[str, Any]) -> str:
    """The key of a run: a hash of its non-default settings that its method reads.

    Defaults are left out so that a setting which is added later changes no key.
    """
    return hashlib.blake2b(json.dumps(non_defaults(settings), sort_keys=True).encode(), digest_size=8).hexdigest()


def non_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults and are read by the method."""
    aside = OF_THE_MACHINE | ignored_settings(run_with(settings))
    plain = {key: _plain(value) for key, value in settings.items() if key not in aside}
    return {key: value for key, value in plain.items() if value != _plain(_defaults().get(key))}


def run_with(settings: Mapping[str, Any]) -> RunConfig:
    """The config with these settings; keys that a config does not have are ignored."""
    return changed(RunConfig(), {key: settings[key] for key in settings if key in _defaults()})


def diff(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """The differences between two runs: 'steps (1000, 2000)'."""
    first, second = non_defaults(one), non_defaults(two)
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    return [f"{key} ({one.get(key)}, {two.get(key)})" for key in keys]


def job_key(job: Job) -> str:
    return key_of(_briefly(job.seeded(0)) | {"seed": job.config.seed})


@cache
def _briefly(job: Job) -> dict[str, Any]:
    """The settings that make up a job's key; cached, as most jobs differ only in their seed."""
    settings = settings_of(job)
    return {key: settings[key] for key in non_defaults(settings)} | {"method": job.config.method}


def folder_name(job: Job) -> str:
    """The unique, readable name of a job's run folder and record."""
    return f"{Path(replace(job.config, out=None).folder).name}-{job_key(job)}"


@cache
def _defaults() -> dict[str, Any]:
    return flatten(asdict(RunConfig()))


def _plain(value: Any) -> Any:
    """A value in a canonical form: 250, 250.0 and "250" are the same setting."""
    if isinstance(value, bool) or value is None:
        return value
    try:
        return repr(float(value))
    except ValueError:
        return value
