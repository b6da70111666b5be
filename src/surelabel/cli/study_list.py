"""The text of `surelabel study --list`."""

from collections.abc import Mapping, Sequence

from surelabel.studies.plan import Cell, Study, job_key, jobs_of
from surelabel.studies.records import Record
from surelabel.studies.run_time import Clock
from surelabel.training.display import duration


def listing(
    scale: str, studies: Sequence[tuple[Study, list[Cell]]], seeds: int | None, records: Mapping[str, Record]
) -> str:
    """Describe each study with its chosen cells: its place in the paper, number of runs, time left.

    Runs that studies share are counted in each.
    """
    clock = Clock(records.values())
    lines = [
        f"At {scale} scale. Times are estimates for the missing runs, one after another, from finished runs. "
        "Runs that studies share are trained once.\n"
    ]
    for study, cells in studies:
        jobs = jobs_of(cells, seeds)
        left = [job for job in jobs if job_key(job) not in records]
        rest = f"{len(left)} to do, {_long(clock.total(left))}" if left else "all done"
        cost = f"{len(jobs)} runs, {rest}" if jobs else "no runs"
        lines.append(f"{study.name:<16} {study.what}\n{'':<16} {study.place}; {cost}")
    return "\n".join(lines)


def _long(seconds: float | None) -> str:
    if seconds is None:
        return "unknown time"
    days = seconds / 86_400
    return f"about {duration(seconds) if days < 3 else f'{days:,.0f} days'}"
