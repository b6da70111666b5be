"""`surelabel study import`: results from run folders that `surelabel fit` made."""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from surelabel.cli.study_filters import IDENTITY
from surelabel.studies import records as results
from surelabel.studies.catalogue import STUDIES
from surelabel.studies.plan import SCALES, Job, diff, folder_name, job_key, jobs_of, key_of, settings_of
from surelabel.studies.worker import log
from surelabel.utils.errors import UserError


def nearest(settings: Mapping[str, Any], jobs: Iterable[Job]) -> str:
    """In what these settings differ from those of the most similar job, with the same method and data."""
    alike = [job for job in jobs if all(str(getattr(job.run, key)) == str(settings.get(key)) for key in IDENTITY)]
    apart = sorted((diff({**settings, "seed": 0}, settings_of(job)) for job in alike), key=len)
    return f"the nearest differs in {', '.join(apart[0])}" if apart else "nor is any with its method and data"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="surelabel study import", allow_abbrev=False,
        description="Take finished run folders over as results, where their settings are those of a study's run.",
    )  # fmt: skip
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run folder, or a folder of such")
    parser.add_argument("--out", default=".", metavar="DIR", help="as of `surelabel study` (default: this folder)")
    options = parser.parse_args(arguments)
    folders = list(results.finished_folders(options.runs))
    target = Path(options.out) / "results" / "runs"
    known = results.read_all(target)
    wanted = {
        job_key(job): job
        for study in STUDIES.values()
        for scale in SCALES
        for job in jobs_of(study.cells(scale), seeds=1)
    }
    taken = others = 0
    for folder in folders:
        try:
            record = results.record_of(folder)
        except UserError as error:  # of another version, or damaged: the rest can be taken over all the same
            others += 1
            log(f"{folder} is left out: {error}")
            continue
        alike = wanted.get(key_of(record["config"] | {"seed": 0}))
        if alike is None:
            others += 1
            log(f"{folder}: no study's run, {nearest(record['config'], wanted.values())}")
        elif record["key"] not in known:
            results.write(record, target, folder_name(alike.seeded(record["seed"])))
            known[record["key"]] = record
            taken += 1
    log(f"{taken} results into {target}; {others} runs are left out")
    return 0
