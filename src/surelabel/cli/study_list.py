"""What `surelabel study --list` says: every study, where the paper has it, and how long the rest of it will take."""

from collections.abc import Mapping, Sequence

from surelabel.studies.plan import Cell, Study, job_key, jobs_of
from surelabel.studies.records import Record
from surelabel.studies.run_time import Clock
from surelabel.training.display import duration


def listing(
    scale: str, studies: Sequence[tuple[Study, list[Cell]]], seeds: int | None, records: Mapping[str, Record]
) -> str:
    """Each study, with the cells that are asked for of it: what, where in the paper, how many runs, how long.

    Runs that studies share are counted in each.
    """
    clock = Clock(records.values())
    lines = [
        f"At {scale} scale; times of what is to do are estimates, by what finished runs took, one after another. "
        "Runs that studies share run once.\n"
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
