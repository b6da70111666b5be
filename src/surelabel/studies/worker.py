"""A worker: claims a run, does it or goes on with it, leaves its result, and claims the next."""

import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

import surelabel
from surelabel.config.run import RunConfig
from surelabel.data.benchmarks import mnist as idx
from surelabel.studies import records as results
from surelabel.studies.plan import Job, folder_name, job_key
from surelabel.studies.queue import Claim, Queue
from surelabel.studies.records import Record
from surelabel.studies.run_time import Clock
from surelabel.training.display import duration
from surelabel.utils.errors import Busy, UserError, words_of

PAUSE = 2.0  # seconds between two looks at the queue where there is nothing to claim
BUSY_PAUSE = 30.0  # seconds before the next claim, where another worker turned out to do this one


@dataclass(frozen=True)
class Place:
    """Where a study keeps its things: results and tables, run folders, storage."""

    out: Path
    storage: str
    lost_after: int
    data_dir: str | None = None
    again: bool = False  # whether to train what a fine-tuning goes on from where it is finished, but not here

    @property
    def results(self) -> Path:
        return self.out / "results" / "runs"

    @property
    def runs(self) -> Path:
        return self.out / "runs" / "study"

    def folder(self, job: Job) -> Path:
        return self.runs / folder_name(job)


def work(jobs: Sequence[Job], place: Place) -> None:
    """Do these jobs, with whoever else works on them, until all are complete, have failed or are left to others."""
    queue = Queue(place.storage, place.lost_after)
    by_key = {job_key(job): job for job in jobs}
    after = {key: job_key(job.before) for key, job in by_key.items() if job.before is not None}
    waited = False
    while True:
        claim = queue.claim([key for key, job in by_key.items() if not _lacking(job, place)], after)
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
    from surelabel.utils.signals import Stopped

    job = by_key[claim.key]
    say(f"Begun: {job.name} ({folder_name(job)})")
    try:
        with queue.alive(claim):
            record = perform(job, place)
            results.write(record, place.results, folder_name(job))
    except Stopped:
        queue.release(claim)
        raise
    except Busy as error:  # its worker was taken for dead, and is not
        say(f"Given back: {job.name}: {error}")
        queue.release(claim)
        time.sleep(BUSY_PAUSE)
        return
    except Exception as error:  # no memory, for example: other runs may do all the same
        queue.fail(claim, words_of(error))
        say(f"Failed: {job.name}: {words_of(error)}")
        return
    except BaseException:
        queue.release(claim)
        raise
    queue.finish(claim, record)
    _report(queue, job, record, by_key)


def perform(job: Job, place: Place) -> Record:
    """The record of a job, whose run folder is made, gone on with, or, where it is finished, read."""
    own, where = place.folder(job), data_dir(job, place.data_dir)
    if job.finetune is None:
        source = _train(replace(job.run, out=str(own), data_dir=where), own)
        return results.record_of(own, source=source)
    base = Job(job.run)
    folder = place.folder(base)
    _train_again(base, place)
    from surelabel.config.recipes import finetune
    from surelabel.training.run_folder import RunFolder

    stored = RunFolder(folder)
    run = finetune(replace(stored.config, data_dir=where), str(folder), len(stored.labelled()))
    run = replace(run, out=str(own), optimizer=replace(run.optimizer, lr=job.finetune))
    source = _train(run, own, labels_of=folder)
    return results.record_of(own, job.finetune, base=folder, source=source)


def _train_again(base: Job, place: Place) -> None:
    """Have the folder of a run whose result is known: one worker makes it, and the others wait for it."""
    from filelock import FileLock

    folder = place.folder(base)
    if _finished(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not _finished(folder):
            say(f"Again: {base.name} ({folder.name})")
            perform(base, place)


def _lacking(job: Job, place: Place) -> bool:
    """Whether the job cannot be done here, since the run that it goes on from has no finished folder here."""
    return job.before is not None and not place.again and not _finished(place.folder(job.before))


def left(queue: Queue, by_key: Mapping[str, Job], place: Place) -> dict[str, str]:
    """What to do about fine-tunings that nobody does here, by the run, finished elsewhere, that they go on from."""
    counts = queue.counts(by_key)
    found: dict[Job, int] = {}
    for key, job in by_key.items():
        taken = key in counts["complete"] or key in counts["running"]
        if job.before and not taken and _lacking(job, place) and job_key(job.before) in counts["complete"]:
            found[job.before] = found.get(job.before, 0) + 1
    return {
        job_key(base): f"Left to do elsewhere: the fine-tuning of {base.name} (runs: {count}), since "
        f"{place.folder(base)} is not here. Call the study where it is, copy it here, or train it again by --again"
        for base, count in found.items()
    }


def data_dir(job: Job, given: str | None) -> str | None:
    """The given folder, if this run's files are to be looked for there.

    One folder is given for all runs: what may lie elsewhere, as Fashion-MNIST does where a system's package put it, is
    looked for there only if it is there.
    """
    data = job.run.data
    there = data.startswith(("cifar", "imagenet")) or (given is not None and idx.is_in(given, data))
    return given if there else job.run.data_dir


def _finished(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def _train(run: RunConfig, folder: Path, labels_of: Path | None = None) -> str | None:
    """Make the run, or go on with it; the source that made it, None where it was finished before."""
    from rich.console import Console

    from surelabel.training.fit import fit
    from surelabel.training.run_folder import RunFolder

    if _finished(folder):
        return None
    begun = (folder / "config.yaml").is_file()
    if begun:  # with a checkpoint what it started from no longer matters, and may have been moved since
        run = replace(run, init=RunFolder(folder).config.init)
    source = results.source_of(Path(surelabel.__file__).parent)  # before the run: its files may change meanwhile
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Warnings too: hundreds of runs would repeat them.
    with (folder.parent / f"{folder.name}.log").open("a", encoding="utf-8") as log, redirect_stderr(log):
        try:
            fit(run, begun, Console(file=log, width=120), labels_of)
        except Exception:
            traceback.print_exc(file=log)
            raise
    if not _finished(folder):
        raise UserError(f"{run.data} has no test set, so that the run has no figures")
    return source


def _report(queue: Queue, job: Job, record: Record, by_key: dict[str, Job]) -> None:
    counts = queue.counts(by_key)
    left = [by_key[key] for name in ("waiting", "running") for key in counts[name]]
    seconds = Clock(queue.records(by_key).values()).total(left)
    ahead = "unknown time" if seconds is None else f"about {duration(seconds / (len(counts['running']) + 1))}"
    figures = f"accuracy {record['final']['accuracy']:.1%}, ECE {record['final']['ece']:.3f}"
    say(f"[{len(counts['complete'])}/{len(by_key)}] {job.name}: {figures}, {duration(record['seconds'])}; {ahead} left")


def say(message: str) -> None:
    print(message, flush=True)


def process(jobs: Sequence[Job], place: Place, gpu: str | None = None) -> None:
    """What a worker process runs: its exit code says how it ended."""
    from surelabel.utils.signals import Stopped, stopping

    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # which CUDA reads when it is first used
    try:
        with stopping():
            work(jobs, place)
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        print(f"surelabel: {error}", file=sys.stderr)
        sys.exit(2)
