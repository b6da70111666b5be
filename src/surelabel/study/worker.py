"""A worker: claims a run, does it or goes on with it, leaves its result, and claims the next."""

import sys
import time
import traceback
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


class Elsewhere(UserError):
    """What a job goes on from is complete, but not on this machine."""


def work(jobs: Sequence[Job], place: Place) -> None:
    """Do these jobs, with whoever else works on them, until all are complete, have failed or are left to others."""
    queue = Queue(place.storage, place.lost_after)
    by_key = {job_key(job): job for job in jobs}
    after = {key: job_key(job.before) for key, job in by_key.items() if job.before is not None}
    mine = list(by_key)
    waited = False
    while True:
        claim = queue.claim(mine, after)
        if claim is not None:
            waited = False
            try:
                _take(queue, claim, by_key, place)
            except Elsewhere as error:
                mine.remove(claim.key)
                say(str(error))
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
    except (Stopped, Elsewhere):
        queue.release(claim)
        raise
    except Exception as error:  # no memory, for example: other runs may do all the same
        words = str(error) if isinstance(error, UserError) else repr(error)
        queue.fail(claim, words)
        say(f"Failed: {job.name}: {words}")
        return
    except BaseException:
        queue.release(claim)
        raise
    results.write(record, place.results, folder_name(job))
    queue.finish(claim, record)
    _report(queue, job, record, by_key)


def perform(job: Job, place: Place) -> Record:
    """The record of a job, whose run folder is made, gone on with, or, where it is finished, read."""
    own, where = place.runs / folder_name(job), data_dir(job, place.data_dir)
    if job.finetune is None:
        source = _train(replace(job.run, out=str(own), data_dir=where), own)
        return results.record_of(own, source=source)
    folder = place.runs / folder_name(Job(job.run))
    if not _finished(folder):
        raise Elsewhere(left(job, place))
    from surelabel.recipes import finetune
    from surelabel.runfolder import RunFolder

    stored = RunFolder(folder)
    run = finetune(replace(stored.run(), data_dir=where), str(folder), len(stored.labelled()))
    run = replace(run, out=str(own), optimizer=replace(run.optimizer, lr=job.finetune))
    source = _train(run, own, labels_of=folder)
    return results.record_of(own, job.finetune, base=folder, source=source)


def left(job: Job, place: Place) -> str:
    """What to do about a job whose base is complete, but not here."""
    folder = place.runs / folder_name(Job(job.run))
    return f"Left to do elsewhere: {job.name}, which follows {folder}: call the study where that is, or copy it here"


def data_dir(job: Job, given: str | None) -> str | None:
    """Only of what is not found without being told where it is."""
    return given if job.run.data.startswith(("cifar", "imagenet")) else job.run.data_dir


def _finished(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def _train(run: Run, folder: Path, labels_of: Path | None = None) -> str | None:
    """Make the run, or go on with it; the source that made it, None where it was finished before."""
    from rich.console import Console

    from surelabel.fit import fit

    if _finished(folder):
        return None
    source = results.source_of(Path(surelabel.__file__).parent)  # before the run: its files may change meanwhile
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Warnings too: hundreds of runs would repeat them.
    with (folder.parent / f"{folder.name}.log").open("a", encoding="utf-8") as log, redirect_stderr(log):
        try:
            fit(run, (folder / "config.yaml").is_file(), Console(file=log, width=120), labels_of)
        except Exception:
            traceback.print_exc(file=log)
            raise
    if not _finished(folder):
        raise UserError(f"{run.data} has no test set, so that the run has no figures")
    return source


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
