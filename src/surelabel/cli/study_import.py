"""`surelabel study import`: take over run folders that `surelabel fit` made."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from surelabel.cli.study_filters import IDENTITY
from surelabel.studies import records
from surelabel.studies.catalogue import STUDIES
from surelabel.studies.plan import SCALES, Job, diff, folder_name, job_key, jobs_of, key_of, settings_of
from surelabel.studies.worker import log
from surelabel.utils.errors import UserError


def nearest(settings: Mapping[str, Any], jobs: Iterable[Job]) -> str:
    """How these settings differ from the most similar job with the same method, data and labels."""
    alike = [job for job in jobs if all(str(getattr(job.config, key)) == str(settings.get(key)) for key in IDENTITY)]
    apart = sorted((diff({**settings, "seed": 0}, settings_of(job)) for job in alike), key=len)
    return f"the nearest differs in {', '.join(apart[0])}" if apart else "and none has its method, data and labels"


def import_runs(folders: Sequence[Path], out: Path) -> int:
    """Write a record of each finished run in these folders whose settings are those of a study's run."""
    if not folders:
        raise UserError("name the run folders to import: surelabel study import RUN ...")
    target = out / "results" / "runs"
    known = records.read_all(target)
    wanted = {
        job_key(job): job
        for study in STUDIES.values()
        for scale in SCALES
        for job in jobs_of(study.cells(scale), seeds=1)
    }
    taken = others = 0
    for folder in records.finished_folders(folders):
        try:
            record = records.record_of(folder)
        except UserError as error:  # damaged, or of another version
            others += 1
            log(f"{folder}: skipped: {error}")
            continue
        alike = wanted.get(key_of(record["config"] | {"seed": 0}))
        if alike is None:
            others += 1
            log(f"{folder}: skipped: not a run of any study, {nearest(record['config'], wanted.values())}")
        elif record["key"] not in known:
            records.write(record, target, folder_name(alike.seeded(record["seed"])))
            known[record["key"]] = record
            taken += 1
    log(f"{taken} records written to {target}; {others} runs skipped")
    return 0
