"""The runs of all studies in one Optuna storage, shared by any number of workers on any number of machines.

A run is a trial: waiting, running, complete or failed. What a worker does with several trials at once (adding runs,
claiming one) it does alone, under a lock of the whole storage: Optuna's own step from waiting to running is no single
transaction in SQLite, and two workers could take it together. Everything is stored as JSON; nothing is unpickled.
"""

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from surelabel.studies.records import Record
from surelabel.studies.storage import exclusive, open_storage
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    import optuna

NAME = "surelabel runs"
LOST_AFTER = 180  # seconds without a sign of life from a worker
BEAT = 30  # seconds at most between two signs of life, however long others would wait for them
PAUSES = (1, 5, 30, 120)  # seconds, before a storage that is out of reach is asked again
MOST_LOST = 3  # workers that one run may cost: it may be what ends them, for lack of memory


P = ParamSpec("P")
T = TypeVar("T")


def retry(ask: Callable[Concatenate["Queue", P], T]) -> Callable[Concatenate["Queue", P], T]:
    """Ask again for a while, and say so: a server that is started anew must not end the workers of a cluster."""

    @wraps(ask)
    def asked(queue: "Queue", /, *given: P.args, **named: P.kwargs) -> T:
        import optuna
        import psycopg
        from sqlalchemy.exc import OperationalError

        pauses = iter(PAUSES)
        while True:
            try:
                return ask(queue, *given, **named)
            except (OperationalError, psycopg.OperationalError, optuna.exceptions.StorageInternalError) as error:
                queue.out_of_reach()
                reason = str(error).partition("\n")[0]
                pause = next(pauses, None)
                if pause is None:
                    raise UserError(
                        f"the storage does not answer ({reason}). What is finished is in results/runs, what is not in "
                        "runs/study; the same command goes on from there"
                    ) from error
            print(f"The storage does not answer ({reason}); it is asked again in {pause} s", flush=True)
            time.sleep(pause)

    return asked


@dataclass(frozen=True)
class Claim:
    """A run that this worker, and no other, now does."""

    key: str
    trial: int


class Queue:
    """The storage at a URL: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`."""

    def __init__(self, url: str, lost_after: int = LOST_AFTER) -> None:
        self.url = url
        self.lost_after = lost_after
        self.outage = -math.inf  # when the storage was last out of reach
        self.storage = open_storage(url, BEAT, lost_after)
        import optuna

        with exclusive(url):
            self.study = optuna.create_study(
                storage=self.storage, study_name=NAME, load_if_exists=True, direction="maximize"
            )
        self.states = optuna.trial.TrialState

    def out_of_reach(self) -> None:
        self.outage = time.monotonic()
        self.storage.remove_session()

    @retry
    def offer(self, records: Mapping[str, Record]) -> None:
        """Let the others know what is finished already."""
        with exclusive(self.url):
            known = self._by_key()
            for key, record in records.items():
                if key not in known or known[key].state != self.states.COMPLETE:
                    self._add(key, self.states.COMPLETE, record)

    @retry
    def add(self, keys: Sequence[str]) -> None:
        """Let these runs wait for a worker, unless they are there; those that failed before are tried again."""
        with exclusive(self.url):
            known = self._by_key()
            for key in keys:
                if key not in known or known[key].state == self.states.FAIL:
                    self._add(key, self.states.WAITING, asked=True)

    @retry
    def claim(self, keys: Sequence[str], after: Mapping[str, str]) -> Claim | None:
        """The first of these runs that waits, and whose predecessor, if it has one, is complete."""
        with exclusive(self.url):
            self._revive()
            known = self._by_key()
            for key in keys:
                if key not in known or known[key].state != self.states.WAITING:
                    continue
                if key in after and known[after[key]].state != self.states.COMPLETE:
                    continue
                trial = self.storage.get_trial_id_from_study_id_trial_number(self._id, known[key].number)
                # First the sign of life: a worker killed between these two lines must not hold the run for ever.
                self.storage.record_heartbeat(trial)
                self.storage.set_trial_state_values(trial, self.states.RUNNING)
                return Claim(key, trial)
        return None

    @retry
    def finish(self, claim: Claim, record: Record) -> None:
        """The run is complete, even if its worker was taken for dead meanwhile."""
        import optuna

        try:
            self.storage.set_trial_user_attr(claim.trial, "record", record)
            value = float(record["final"]["accuracy"])
            self.storage.set_trial_state_values(claim.trial, self.states.COMPLETE, [value])
        except optuna.exceptions.UpdateFinishedTrialError:
            self.offer({claim.key: record})

    @retry
    def fail(self, claim: Claim, error: str | None) -> None:
        """The run cannot be done: with an error, no worker tries again until it is asked for anew."""
        import optuna

        try:
            if error is not None:
                self.storage.set_trial_user_attr(claim.trial, "error", error)
            self.storage.set_trial_state_values(claim.trial, self.states.FAIL)
        except optuna.exceptions.UpdateFinishedTrialError:
            pass  # taken for dead meanwhile: the run is another worker's now

    def release(self, claim: Claim) -> None:
        """Give the run back, for any worker to go on with."""
        self.fail(claim, None)
        self.add([claim.key])

    @retry
    def records(self, keys: Collection[str]) -> dict[str, Record]:
        """Of the complete runs among these."""
        return {
            key: trial.user_attrs["record"]
            for key, trial in self._by_key().items()
            if key in keys and trial.state == self.states.COMPLETE
        }

    @retry
    def counts(self, keys: Collection[str]) -> dict[str, list[str]]:
        """The keys that are waiting, running, complete and failed."""
        found: dict[str, list[str]] = {name: [] for name in ("waiting", "running", "complete", "fail")}
        for key, trial in self._by_key().items():
            if key in keys:
                found[trial.state.name.lower()].append(key)
        return found

    @retry
    def errors(self, keys: Collection[str]) -> dict[str, str]:
        """Why the failed ones failed; one whose worker is gone waits for another, whoever sees that first."""
        return {
            key: str(trial.user_attrs["error"])
            for key, trial in self._by_key().items()
            if key in keys and trial.state == self.states.FAIL and "error" in trial.user_attrs
        }

    @contextmanager
    def alive(self, claim: Claim) -> Iterator[None]:
        """Within this block the claim's worker gives signs of life."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(max(0.5, min(self.lost_after / 6, BEAT))):
                try:
                    self.storage.record_heartbeat(claim.trial)
                except Exception:  # a storage out of reach for a while must not end hours of training
                    self.out_of_reach()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _revive(self) -> None:
        """Let the runs wait again whose workers are gone, of other studies too: they failed without an error.

        After an outage nobody's signs of life are recent: whoever is alive has time for another first.
        """
        import optuna

        if time.monotonic() - self.outage < 2 * BEAT:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)
        lost = self._lost()
        for key, trial in self._by_key().items():
            if trial.state != self.states.FAIL or "error" in trial.user_attrs:
                continue
            if lost[key] < MOST_LOST:
                self._add(key, self.states.WAITING)
            else:
                error = f"{MOST_LOST} workers were lost at it, perhaps for lack of memory. The same command tries again"
                self._add(key, self.states.FAIL, error=error)

    def _lost(self) -> Counter[str]:
        """How many workers each run has cost since it was asked for, or given back."""
        lost: Counter[str] = Counter()
        for trial in self.study.get_trials(deepcopy=False):
            key = trial.user_attrs["key"]
            if "asked" in trial.user_attrs:
                del lost[key]
            lost[key] += trial.state == self.states.FAIL
        return lost

    def _add(self, key: str, state: "optuna.trial.TrialState", record: Record | None = None, **more: Any) -> None:
        import optuna

        attributes: dict[str, Any] = {"key": key, **more} | ({} if record is None else {"record": record})
        value = None if record is None else float(record["final"]["accuracy"])
        self.study.add_trial(optuna.create_trial(state=state, value=value, user_attrs=attributes))

    def _by_key(self) -> "dict[str, optuna.trial.FrozenTrial]":
        """The trial that counts of each run: a complete one if there is one, else the newest."""
        found: dict[str, optuna.trial.FrozenTrial] = {}
        for trial in self.study.get_trials(deepcopy=False):
            key = trial.user_attrs["key"]
            if key not in found or found[key].state != self.states.COMPLETE:
                found[key] = trial
        return found

    @property
    def _id(self) -> int:
        return self.storage.get_study_id_from_name(NAME)
