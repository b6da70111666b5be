"""A worker: claims a run, trains or resumes it, stores its result, and claims the next."""

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path

import surelabel
from surelabel.config.run import RunConfig
from surelabel.data.benchmarks import mnist
from surelabel.studies import records
from surelabel.studies.plan import Job, folder_name, job_key
from surelabel.studies.queue import Claim, Queue, Status
from surelabel.studies.records import Record
from surelabel.studies.run_time import Clock
from surelabel.training.display import duration
from surelabel.utils.errors import Busy, UserError, words_of
from surelabel.utils.signals import Stopped, stopping
from surelabel.utils.words import printable

PAUSE = 2.0  # seconds between two looks at the queue while others have the rest
BUSY_PAUSE = 30.0  # seconds before the next claim if another process trains in the run's folder


@dataclass(frozen=True)
class Place:
    """Where a study keeps its files, and which storage its workers share."""

    out: Path
    storage: str
    data_dir: str | None = None
    again: bool = False  # train the base of a fine-tuning again if its folder is not here

    @property
    def results(self) -> Path:
        return self.out / "results" / "runs"

    @property
    def runs(self) -> Path:
        return self.out / "runs" / "study"

    def folder(self, job: Job) -> Path:
        return self.runs / folder_name(job)


def work(jobs: Sequence[Job], place: Place) -> None:
    """Train these jobs, together with other workers, until no job is left that can be done here."""
    queue = Queue(place.storage)
    by_key = {job_key(job): job for job in jobs}
    after = {key: job_key(job.before) for key, job in by_key.items() if job.before is not None}
    waited = False
    while True:
        claim = queue.claim([key for key, job in by_key.items() if not _lacks_base(job, place)], after)
        if claim is not None:
            waited = False
            with closing(claim.lock):
                busy = not _take(queue, claim, by_key, place)
            if busy:
                time.sleep(BUSY_PAUSE)
            continue
        others = queue.status(by_key).running
        if not others:
            return
        if not waited:
            log(f"Waiting for {len(others)} runs of other workers")
            waited = True
        time.sleep(PAUSE)


def _take(queue: Queue, claim: Claim, by_key: dict[str, Job], place: Place) -> bool:
    """Do the claimed job; False if another process turns out to train in its folder."""
    job = by_key[claim.key]
    log(f"Begun: {job.name} ({folder_name(job)})")
    try:
        record = perform(job, place)
        records.write(record, place.results, folder_name(job))
    except (Stopped, KeyboardInterrupt, SystemExit):
        queue.release(claim)
        raise
    except Busy as error:
        log(f"Given back: {job.name}: {error}")
        queue.release(claim)
        return False
    except Exception as error:  # out of memory, for example: other runs may still work
        queue.release(claim, words_of(error))
        log(f"Failed: {job.name}: {words_of(error)}")
    else:
        queue.finish(claim, record)
        _report(queue.status(by_key), job, record, by_key)
    return True


def perform(job: Job, place: Place) -> Record:
    """Train or resume a job in its run folder, unless it is finished there; return its record."""
    own, where = place.folder(job), data_dir(job, place.data_dir)
    if job.finetune is None:
        source = _train(replace(job.config, out=str(own), data_dir=where), own)
        return records.record_of(own, source=source)
    base = Job(job.config)
    folder = place.folder(base)
    _train_again(base, place)
    from surelabel.config.recipes import finetune
    from surelabel.training.run_folder import RunFolder

    stored = RunFolder(folder)
    config = finetune(replace(stored.config, data_dir=where), str(folder), len(stored.labelled()))
    config = replace(config, out=str(own), optimizer=replace(config.optimizer, lr=job.finetune))
    source = _train(config, own, labels_of=folder)
    return records.record_of(own, job.finetune, base=folder, source=source)


def _train_again(base: Job, place: Place) -> None:
    """Make the folder of a run whose result is known, if missing; other workers wait for it."""
    from filelock import FileLock

    folder = place.folder(base)
    if _finished(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not _finished(folder):
            log(f"Again: {base.name} ({folder.name})")
            perform(base, place)


def _lacks_base(job: Job, place: Place) -> bool:
    """Whether the job fine-tunes a run whose finished folder is not here."""
    return job.before is not None and not place.again and not _finished(place.folder(job.before))


def leftover_jobs(status: Status, by_key: Mapping[str, Job], place: Place) -> dict[Job, int]:
    """The number of fine-tunings by run that wait for another machine, which trained the run."""
    bases = [
        job.before
        for key, job in by_key.items()
        if job.before and _lacks_base(job, place) and job_key(job.before) in status.complete
        if key not in status.complete and key not in status.running
    ]
    return dict(Counter(bases))


def data_dir(job: Job, given: str | None) -> str | None:
    """The folder to read this job's data from.

    One folder is given for all jobs. Fashion-MNIST may come from a system package instead, so it is read from the
    given folder only if it is there.
    """
    data = job.config.data
    there = data.startswith(("cifar", "imagenet")) or (given is not None and mnist.is_in(given, data))
    return given if there else job.config.data_dir


def _finished(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def _train(config: RunConfig, folder: Path, labels_of: Path | None = None) -> str | None:
    """Train or resume the run; return the hash of the code, or None if it was finished before."""
    from rich.console import Console

    from surelabel.training.fit import fit
    from surelabel.training.run_folder import RunFolder

    if _finished(folder):
        return None
    begun = (folder / "config.yaml").is_file()
    if begun:  # the checkpoint replaces what it started from, which may have been moved since
        config = replace(config, init=RunFolder(folder).config.init)
    # Before training, during which the files may change.
    source = records.source_of(Path(surelabel.__file__).parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Warnings go to the log too: hundreds of runs would repeat them.
    with (folder.parent / f"{folder.name}.log").open("a", encoding="utf-8") as file, redirect_stderr(file):
        try:
            fit(config, begun, Console(file=file, width=120), labels_of)
        except Exception:
            traceback.print_exc(file=file)
            raise
    if not _finished(folder):
        raise UserError(f"{config.data} has no test set, so the run has no metrics")
    return source


def _report(status: Status, job: Job, record: Record, by_key: dict[str, Job]) -> None:
    left = [by_key[key] for key in (*status.waiting, *status.running)]
    seconds = Clock(status.complete.values()).total(left)
    ahead = "unknown time" if seconds is None else f"about {duration(seconds / (len(status.running) + 1))}"
    metrics = f"accuracy {record['final']['accuracy']:.1%}, ECE {record['final']['ece']:.3f}"
    log(f"[{len(status.complete)}/{len(by_key)}] {job.name}: {metrics}, {duration(record['seconds'])}; {ahead} left")


def log(message: str) -> None:
    print(printable(message), flush=True)


def process(jobs: Sequence[Job], place: Place, gpu: str | None = None) -> None:
    """The main function of a worker process, on one GPU if given."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # read when CUDA is first used
    try:
        with stopping():
            work(jobs, place)
    except Stopped as stopped:
        sys.exit(stopped.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        print(f"surelabel: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
