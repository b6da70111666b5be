"""How long runs will take: as long as such runs took before. A rough estimate, whatever the machine."""

from collections.abc import Iterable
from statistics import median

from surelabel.studies.plan import Job
from surelabel.studies.records import Record


class Clock:
    """The seconds of jobs by finished records: the median of the same method and data, else of the same data.

    Only records with as many steps count: a run of the paper's size takes a thousand times as long as a small one.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._taken: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            settings = record["config"]
            kind = str(settings.get("data")), str(settings.get("steps"))
            for key in (kind, (*kind, str(settings["method"]))):
                self._taken.setdefault(key, []).append(record["seconds"])

    def seconds(self, job: Job) -> float | None:
        """None where it is unknown."""
        kind = job.run.data, str(job.run.steps)
        taken = self._taken.get((*kind, job.run.method)) or self._taken.get(kind)
        return median(taken) if taken else None

    def total(self, jobs: Iterable[Job]) -> float | None:
        """Of all these jobs, one after another; None where that of one is unknown."""
        found = [self.seconds(job) for job in jobs]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) if len(known) == len(found) else None
