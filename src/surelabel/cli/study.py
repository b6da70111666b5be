"""surelabel study: Make one of the paper's tables or figures.

  surelabel study table1              make it; the same command again resumes
  surelabel study trust               the default for own data, beside scikit-learn and the other methods
  surelabel study --list              the studies, and the time that each would take
  surelabel study import RUN ...      take over finished run folders of `surelabel fit`

All workers on one storage share its runs; finished runs are never repeated.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from surelabel.cli.parser import positive
from surelabel.cli.study_filters import chosen, in_words, part_of
from surelabel.config.recipes import SIZES
from surelabel.studies import records
from surelabel.studies.catalogue import STUDIES, find
from surelabel.studies.plan import Cell, Job, Study, folder_name, job_key, jobs_of
from surelabel.studies.queue import Queue
from surelabel.studies.worker import Place, data_dir, leftover_jobs, log, process, work
from surelabel.utils.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="which study; or import, to take over run folders")
    parser.add_argument(
        "folders", nargs="*", metavar="RUN", type=Path, help="after import: a run folder, or a folder of run folders"
    )
    parser.add_argument(
        "--list", action="store_true", help="describe all studies, or this one, and estimate the time that is left"
    )
    parser.add_argument(
        "--scale", choices=SIZES, default="laptop", help="small runs, or those of the paper (default: laptop)"
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="runs per setting (default: the study's)")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes here (default: 1)")
    parser.add_argument("--out", default=".", metavar="DIR", help="for results/ and runs/ (default: this folder)")
    parser.add_argument("--storage", metavar="URL", help="sqlite:///FILE (default: in DIR/runs) or postgresql://...")
    parser.add_argument("--data-dir", metavar="DIR", help="folder of the CIFAR, ImageNet and Fashion-MNIST files")
    parser.add_argument("--data", action="append", metavar="NAME", help="only runs on this data set; repeatable")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of all runs; repeatable"
    )
    parser.add_argument(
        "--again", action="store_true", help="train runs again that a fine-tuning needs and whose folders are not here"
    )
    parser.add_argument("--tables", action="store_true", help="train nothing: make the tables of finished runs")


def run(options: argparse.Namespace) -> int:
    if options.name == "import":
        from surelabel.cli.study_import import import_runs

        return import_runs(options.folders, Path(options.out))
    if options.folders:
        raise UserError(f"{str(options.folders[0])!r} is one argument too many: see --help")
    if options.name == "trust":
        return _trust(options)
    if options.list:
        return _list(options)
    if options.name is None:
        raise UserError("name a study, such as table1; `surelabel study --list` lists them")
    study = find(options.name)
    if not study.cells(options.scale):
        return _write_static(study, Path(options.out) / "results")
    return run_study(study, options, _place(options))


def _trust(options: argparse.Namespace) -> int:
    """The study of the calibrated default, which trains in memory and has rivals of scikit-learn."""
    from surelabel.studies import trust
    from surelabel.studies.trust_table import write_table

    results = Path(options.out) / "results"
    results.mkdir(parents=True, exist_ok=True)
    draws = options.seeds or trust.DRAWS
    if options.list:
        wanted = sum(len(methods) for _, _, methods in trust.jobs(draws))
        print(f"trust: {len(trust.read(results))} of {wanted} records are there")
        return 0
    if not options.tables:
        trust.run(results, options.data_dir, draws, log)
    print(write_table(results), end="")
    return 0


def _list(options: argparse.Namespace) -> int:
    from surelabel.cli.study_list import listing

    if options.name is None and (options.data or options.set):
        raise UserError("--list with --data or --set needs the name of a study")
    studies = list(STUDIES.values()) if options.name is None else [find(options.name)]
    asked = [(study, chosen(study.cells(options.scale), options)) for study in studies]
    _show(listing(options.scale, asked, options.seeds, records.read_all(Path(options.out) / "results" / "runs")))
    return 0


def _place(options: argparse.Namespace) -> Place:
    out = Path(options.out)
    storage = options.storage or f"sqlite:///{(out / 'runs' / 'study.sqlite3').resolve()}"
    where = None if options.data_dir is None else str(Path(options.data_dir).resolve())
    return Place(out.resolve(), storage, where, options.again)


def run_study(study: Study, options: argparse.Namespace, place: Place) -> int:
    cells = chosen(study.cells(options.scale), options)
    by_key = {job_key(job): job for job in jobs_of(cells, options.seeds)}
    if not options.tables:
        code = _train_missing(by_key, place, options.workers)
        if code:
            return code
    return _write(study, cells, options, by_key, place)


def _train_missing(by_key: dict[str, Job], place: Place, workers: int) -> int:
    """Queue the missing runs and work on them; the exit code, 0 unless the work was interrupted."""
    stored = records.read_all(place.results)
    queue = Queue(place.storage)
    queue.offer({key: stored[key] for key in by_key.keys() & stored.keys()})
    status = queue.status(by_key)
    missing = [job for key, job in by_key.items() if key not in status.complete]
    log(f"{len(by_key)} runs: {len(status.complete)} finished, {len(missing)} to do")
    if not missing:
        return 0
    leftovers = leftover_jobs(status, by_key, place)
    _log_leftovers(leftovers, place)
    _check_needs([job for job in missing if job.before not in leftovers], place)
    queue.add([job_key(job) for job in missing])
    jobs = list(by_key.values())
    return _work_alone(jobs, place) if workers == 1 else _work_together(jobs, place, workers)


def _log_leftovers(leftovers: Mapping[Job, int], place: Place) -> None:
    for base, count in leftovers.items():
        log(
            f"Left to do elsewhere: the fine-tuning of {base.name} (runs: {count}), because {place.folder(base)} is "
            "not here. Run the study where that folder is, copy it here, or train it again with --again"
        )


def _check_needs(jobs: Sequence[Job], place: Place) -> None:
    """Raise before hours of work if data, or the packages of a pretrained network, are missing."""
    from surelabel.config.encoders import check_installed
    from surelabel.data.open import open_data

    for encoder in {job.config.encoder for job in jobs} - {"none"}:
        check_installed(encoder)
    for name, where in dict.fromkeys((job.config.data, data_dir(job, place.data_dir)) for job in jobs):
        try:
            open_data(name, where)
        except UserError as error:
            raise UserError(f"{error}. To leave it out, name the other data sets: --data NAME") from error


def _work_alone(jobs: Sequence[Job], place: Place) -> int:
    from surelabel.utils.signals import Stopped, stopping

    try:
        with stopping():
            work(jobs, place)
    except (Stopped, SystemExit) as stopped:
        log("Stopped and saved. The same command resumes")
        return stopped.exit_code if isinstance(stopped, Stopped) else int(str(stopped.code))
    return 0


def _work_together(jobs: Sequence[Job], place: Place, workers: int) -> int:
    """Several worker processes, which take the GPUs in turn, one each.

    Ctrl-C reaches them by itself, SIGTERM is passed on: they save, and end.
    """
    context = multiprocessing.get_context("spawn")
    gpus = _gpus()
    running = [
        context.Process(target=process, args=(jobs, place, gpus[number % len(gpus)] if gpus else None))
        for number in range(workers)
    ]
    for one in running:
        one.start()

    def pass_on(number: int, _: object) -> None:
        for one in running if number == signal.SIGTERM else []:
            one.terminate()

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    for one in running:
        one.join()
    for number, handler in before.items():
        signal.signal(number, handler)
    codes = [one.exitcode or 0 for one in running]
    status = Queue(place.storage).status([job_key(job) for job in jobs])
    if not any(codes) or not (status.waiting or status.running):
        return 0  # if a worker died, the others did its work
    log("Some workers did not reach the end. The same command resumes")
    return max(codes, key=abs)


def _gpus() -> list[str]:
    """The GPUs that CUDA may use here, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [word for word in named.split(",") if word] or list(map(str, range(torch.cuda.device_count())))


def _write(
    study: Study, cells: Sequence[Cell], options: argparse.Namespace, by_key: dict[str, Job], place: Place
) -> int:
    """Write other machines' records and the tables; exit code 1 if runs failed or are left."""
    from surelabel.studies import charts, page
    from surelabel.studies.layout import lay_out

    stored = records.read_all(place.results)
    errors: dict[str, str] = {}
    leftovers: dict[Job, int] = {}
    if options.storage or not options.tables:
        status = Queue(place.storage).status(by_key)
        errors = status.failed
        if not options.tables:
            leftovers = leftover_jobs(status, by_key, place)
        for key, record in status.complete.items():
            if key not in stored:
                stored[key] = record
                records.write(record, place.results, folder_name(by_key[key]))
    done = sum(key in stored for key in by_key)
    state = "" if done == len(by_key) else f"{done} of {len(by_key)} runs are finished."
    state = f"{in_words(options)} {state}".strip()
    layout = lay_out(study, cells, stored, options.seeds)
    tables = page.tables_of(study, layout)
    drawn = charts.draw(study, layout)
    written = page.write(study, options.scale, tables, drawn, place.out / "results", state, part=part_of(options))
    _show("\n" + "\n\n".join(table.markdown() for table in tables) + "\n")
    for key, error in errors.items():
        log(f"Failed: {by_key[key].name}: {error}")
    _log_leftovers(leftovers, place)
    log(f"{state} In {', '.join(map(str, written))}".strip())
    return 1 if errors or leftovers else 0


def _show(text: str) -> None:
    """Print; the reader, such as `head`, may have closed the pipe."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_static(study: Study, folder: Path) -> int:
    """Write a study without runs."""
    from surelabel.studies import page, static

    tables, drawn, files = static.make(study.name, folder)
    written = page.write(study, None, tables, drawn, folder, pictures=files)
    if tables:
        _show("\n\n".join(table.markdown() for table in tables) + "\n")
    log(f"In {', '.join(map(str, written))}")
    return 0
