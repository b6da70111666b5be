"""A worker: claims a run, does it or goes on with it, leaves its result, and claims the next."""

import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

import surelabel
from surelabel.config import Run
from surelabel.display import duration
from surelabel.errors import UserError
from surelabel.study import estimate, results
from surelabel.study.plan import Job, folder_name, job_key
from surelabel.study.queue import Claim, Queue
from surelabel.study.results import Record

PAUSE = 2.0  # seconds between two looks at the queue where there is nothing to claim


@dataclass(frozen=True)
class Place:
    """Where a study keeps its things: results and tables, run folders, storage."""

    out: Path
    storage: str
    lost_after: int
    data_dir: str | None = None

    @property
    def results(self) -> Path:
        return self.out / "results" / "runs"

    @property
    def runs(self) -> Path:
        return self.out / "runs" / "study"


def work(jobs: Sequence[Job], place: Place) -> None:
    """Do these jobs, together with whoever else works on them, until all are complete or have failed."""
    queue = Queue(place.storage, place.lost_after)
    by_key = {job_key(job): job for job in jobs}
    after = {key: job_key(job.before) for key, job in by_key.items() if job.before is not None}
    waited = False
    while True:
        claim = queue.claim(list(by_key), after)
        if claim is not None:
            waited = False
            _take(queue, claim, by_key, place)
            continue
        others = queue.counts(by_key)["running"]
        if not others:
            return
        if not waited:
            say(f"Waiting for {len(others)} runs of other workers")
            waited = True
        time.sleep(min(PAUSE, place.lost_after / 4))


def _take(queue: Queue, claim: Claim, by_key: dict[str, Job], place: Place) -> None:
    from surelabel.signals import Stopped

    job = by_key[claim.key]
    say(f"Begun: {job.name} ({folder_name(job)})")
    try:
        with queue.alive(claim):
            record = perform(job, place)
    except (Stopped, KeyboardInterrupt):
        queue.release(claim)
        raise
    except UserError as error:
        queue.fail(claim, str(error))
        say(f"Failed: {job.name}: {error}")
        return
    except BaseException as error:
        queue.fail(claim, repr(error))
        raise
    results.write(record, place.results, folder_name(job))
    queue.finish(claim, record)
    _report(queue, job, record, by_key)


def perform(job: Job, place: Place) -> Record:
    """The record of a job, whose run folder is made, gone on with, or, where it is finished, read."""
    source = results.source_of(Path(surelabel.__file__).parent)  # before the run: its files may change meanwhile
    folder = place.runs / folder_name(Job(job.run))
    _train(replace(job.run, out=str(folder), data_dir=data_dir(job, place.data_dir)), folder)
    if job.finetune is None:
        return results.record_of(folder, source=source)
    from surelabel.recipes import finetune
    from surelabel.runfolder import RunFolder

    own = place.runs / folder_name(job)
    stored = RunFolder(folder)
    run = finetune(stored.run(), str(folder), len(stored.labelled()))
    run = replace(run, out=str(own), optimizer=replace(run.optimizer, lr=job.finetune))
    _train(run, own, labels_of=folder)
    return results.record_of(own, job.finetune, base=folder, source=source)


def data_dir(job: Job, given: str | None) -> str | None:
    """Only of what is not found without being told where it is."""
    return given if job.run.data.startswith(("cifar", "imagenet")) else job.run.data_dir


def _train(run: Run, folder: Path, labels_of: Path | None = None) -> None:
    from rich.console import Console

    from surelabel.fit import fit

    if (folder / "result.json").is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Warnings too: hundreds of runs would repeat them.
    with (folder.parent / f"{folder.name}.log").open("a", encoding="utf-8") as log, redirect_stderr(log):
        fit(run, (folder / "config.yaml").is_file(), Console(file=log, width=120), labels_of)
    if not (folder / "result.json").is_file():
        raise UserError(f"{run.data} has no test set, so that the run has no figures")


def _report(queue: Queue, job: Job, record: Record, by_key: dict[str, Job]) -> None:
    counts = queue.counts(by_key)
    left = [by_key[key] for name in ("waiting", "running") for key in counts[name]]
    finished = queue.records(by_key)
    ahead = estimate.total(left, finished) / (len(counts["running"]) + 1)
    figures = f"accuracy {record['final']['accuracy']:.1%}, ECE {record['final']['ece']:.3f}"
    say(
        f"[{len(counts['complete'])}/{len(by_key)}] {job.name}: {figures}, {duration(record['seconds'])}; "
        f"about {duration(ahead)} left"
    )


def say(message: str) -> None:
    print(message, flush=True)


def process(jobs: Sequence[Job], place: Place) -> None:
    """What a worker process runs: its exit code says how it ended."""
    from surelabel.signals import Stopped

    try:
        work(jobs, place)
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        print(f"surelabel: {error}", file=sys.stderr)
        sys.exit(2)
