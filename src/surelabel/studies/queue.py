"""The runs of all studies as trials of one Optuna study, shared by workers on many machines.

A trial is waiting, running, complete or failed. A worker holds a lock while it trains a run: if the
lock of a running trial is free, its worker has died, and another may resume the run. All attributes
are JSON; nothing is unpickled.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from surelabel.studies.records import Record
from surelabel.studies.storage import Locks, exclusive, open_storage
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    import optuna

NAME = "surelabel runs"
PAUSES = (1, 5, 30, 120)  # seconds before each new try, if the storage does not answer
MAX_LOST = 3  # workers lost at a run before it is given up: it may need more memory than there is

P = ParamSpec("P")
T = TypeVar("T")


def retry(method: Callable[Concatenate["Queue", P], T]) -> Callable[Concatenate["Queue", P], T]:
    """Call again while the storage does not answer: a server's restart must not end all workers."""

    @wraps(method)
    def call(queue: "Queue", /, *args: P.args, **kwargs: P.kwargs) -> T:
        import optuna
        import psycopg
        from sqlalchemy.exc import OperationalError

        pauses = iter(PAUSES)
        while True:
            try:
                return method(queue, *args, **kwargs)
            except (OperationalError, psycopg.OperationalError, optuna.exceptions.StorageInternalError) as error:
                queue.storage.remove_session()
                reason = str(error).partition("\n")[0]
                pause = next(pauses, None)
                if pause is None:
                    raise UserError(
                        f"the storage does not answer ({reason}). Finished runs are in results/runs, others in "
                        "runs/study; the same command resumes them"
                    ) from error
            print(f"The storage does not answer ({reason}); next try in {pause} s", flush=True)
            time.sleep(pause)

    return call


@dataclass(frozen=True)
class Claim:
    """A run that this worker has taken, until its lock is closed."""

    key: str
    trial: int
    lock: Locks


@dataclass(frozen=True)
class Status:
    """The keys of runs by state, with records of complete runs and errors of failed ones."""

    waiting: list[str]
    running: list[str]
    complete: dict[str, Record]
    failed: dict[str, str]


class Queue:
    """The runs in the storage at `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.storage = open_storage(url)
        import optuna

        with exclusive(url):
            self.study = optuna.create_study(
                storage=self.storage, study_name=NAME, load_if_exists=True, direction="maximize"
            )
        self.states = optuna.trial.TrialState

    @retry
    def offer(self, records: Mapping[str, Record]) -> None:
        """Store these finished runs as complete, for the other machines."""
        with exclusive(self.url):
            trials = self._by_key()
            for key, record in records.items():
                if key not in trials or trials[key].state != self.states.COMPLETE:
                    self._add(key, self.states.COMPLETE, _accuracy(record), record=record)

    @retry
    def add(self, keys: Sequence[str]) -> None:
        """Queue these runs: those that are new, and again those that failed."""
        with exclusive(self.url):
            trials = self._by_key()
            for key in keys:
                if key not in trials or trials[key].state == self.states.FAIL:
                    self._add(key, self.states.WAITING)

    @retry
    def claim(self, keys: Sequence[str], after: Mapping[str, str]) -> Claim | None:
        """Take the first of these runs that nobody has, and whose `after`, if any, is complete."""
        trials = self._by_key()
        with ExitStack() as stack:
            lock = stack.enter_context(closing(Locks(self.url)))
            for key in keys:
                if key not in trials or trials[key].state.is_finished():
                    continue
                if key in after and trials[after[key]].state != self.states.COMPLETE:
                    continue
                if lock.take(key):
                    break
            else:
                return None
            trial = self._start(key)
            if trial is not None:
                stack.pop_all()
                return Claim(key, trial, lock)
        return self.claim(keys, after)

    def _start(self, key: str) -> int | None:
        """Mark a run as running whose lock is held; None if it is finished by now, or given up."""
        trial = self._by_key()[key]
        if trial.state.is_finished():
            return None
        study = self.storage.get_study_id_from_name(NAME)
        number = self.storage.get_trial_id_from_study_id_trial_number(study, trial.number)
        if trial.state == self.states.RUNNING:  # and yet its lock was free
            lost = trial.user_attrs.get("lost", 0) + 1
            self.storage.set_trial_user_attr(number, "lost", lost)
            if lost == MAX_LOST:
                error = f"{MAX_LOST} workers died in this run, perhaps out of memory. The same command tries again"
                self.storage.set_trial_user_attr(number, "error", error)
                self.storage.set_trial_state_values(number, self.states.FAIL)
                return None
        else:
            self.storage.set_trial_state_values(number, self.states.RUNNING)
        return number

    @retry
    def finish(self, claim: Claim, record: Record) -> None:
        import optuna

        try:
            self.storage.set_trial_user_attr(claim.trial, "record", record)
            self.storage.set_trial_state_values(claim.trial, self.states.COMPLETE, [_accuracy(record)])
        except optuna.exceptions.UpdateFinishedTrialError:  # the lock was lost with the connection
            self.offer({claim.key: record})

    @retry
    def release(self, claim: Claim, error: str | None = None) -> None:
        """Give the run back for any worker to resume; with an error, mark it as failed."""
        import optuna

        try:
            if error is not None:
                self.storage.set_trial_user_attr(claim.trial, "error", error)
            self.storage.set_trial_state_values(claim.trial, self.states.FAIL if error else self.states.WAITING)
        except optuna.exceptions.UpdateFinishedTrialError:
            pass  # the lock was lost with the connection, and another worker finished the run

    @retry
    def status(self, keys: Collection[str]) -> Status:
        """The state of those of these runs that are in the storage."""
        status = Status([], [], {}, {})
        for key, trial in self._by_key().items():
            if key not in keys:
                continue
            if trial.state == self.states.COMPLETE:
                status.complete[key] = trial.user_attrs["record"]
            elif trial.state == self.states.FAIL:
                status.failed[key] = trial.user_attrs.get("error", "its worker died")
            else:
                (status.running if trial.state == self.states.RUNNING else status.waiting).append(key)
        return status

    def _add(self, key: str, state: "optuna.trial.TrialState", value: float | None = None, **more: Any) -> None:
        import optuna

        self.study.add_trial(optuna.create_trial(state=state, value=value, user_attrs={"key": key, **more}))

    def _by_key(self) -> "dict[str, optuna.trial.FrozenTrial]":
        """The trial of each run that counts: a complete one if there is one, else the newest."""
        found: dict[str, optuna.trial.FrozenTrial] = {}
        for trial in self.study.get_trials(deepcopy=False):
            key = trial.user_attrs["key"]
            if key not in found or found[key].state != self.states.COMPLETE:
                found[key] = trial
        return found


def _accuracy(record: Record) -> float:
    return float(record["final"]["accuracy"])
