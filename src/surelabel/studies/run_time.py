"""A rough estimate of run times from finished runs, whatever the machine."""

from collections.abc import Iterable
from statistics import median

from surelabel.studies.plan import Job
from surelabel.studies.records import Record


class Clock:
    """Median seconds of finished runs with the same data, steps and, if there are any, method."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._taken: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            settings = record["config"]
            kind = str(settings.get("data")), str(settings.get("steps"))
            for key in (kind, (*kind, str(settings["method"]))):
                self._taken.setdefault(key, []).append(record["seconds"])

    def seconds(self, job: Job) -> float | None:
        """The estimate for one job; None if unknown."""
        kind = job.config.data, str(job.config.steps)
        taken = self._taken.get((*kind, job.config.method)) or self._taken.get(kind)
        return median(taken) if taken else None

    def total(self, jobs: Iterable[Job]) -> float | None:
        """The estimate for all jobs, one after another; None if any is unknown."""
        found = [self.seconds(job) for job in jobs]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if len(known) == len(found) else None
