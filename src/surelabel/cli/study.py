"""`surelabel study`: list the studies, run one with any number of workers, import finished run folders."""

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from surelabel.cli.arguments import positive
from surelabel.cli.study_filters import chosen, in_words, part_of
from surelabel.studies import records as results
from surelabel.studies.catalogue import STUDIES, find
from surelabel.studies.plan import SCALES, Cell, Job, Study, folder_name, job_key, jobs_of
from surelabel.studies.queue import BEAT, LOST_AFTER, Queue
from surelabel.studies.worker import Place, data_dir, left, process, say, work
from surelabel.utils.errors import UserError

DESCRIPTION = """Make one of the paper's tables or figures: `surelabel study table1`. Its runs are shared by all workers
on one storage; what is finished is never run again, and what was interrupted goes on where it stopped. `surelabel
study --list` says what there is; `surelabel study import RUN ...` takes over finished run folders."""
LEAST_LOST_AFTER = 3 * BEAT


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["import"]:
        from surelabel.cli.study_import import main as take_over

        return take_over(arguments[1:])
    options = _parser().parse_args(arguments)
    if options.list:
        return _list(options)
    if options.name is None:
        raise UserError("name a study, such as table1; `surelabel study --list` explains them all")
    study = find(options.name)
    folder = Path(options.out)
    if not study.cells(options.scale):
        return _still(study, folder / "results")
    return run_study(study, options, _place(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="surelabel study", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("name", nargs="?", metavar="NAME", help="which study")
    parser.add_argument(
        "--list",
        action="store_true",
        help="what each study, or this one, is, and about how long the rest of it would take",
    )
    parser.add_argument(
        "--scale", choices=SCALES, default="laptop", help="small runs, or the paper's (default: laptop)"
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="runs of each setting (default: the study's own)")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes here (default: 1)")
    parser.add_argument("--out", default=".", metavar="DIR", help="for results/ and runs/ (default: this folder)")
    parser.add_argument("--storage", metavar="URL", help="sqlite:///FILE (default: in DIR/runs) or postgresql://...")
    parser.add_argument("--data-dir", metavar="DIR", help="where the files of CIFAR, ImageNet and Fashion-MNIST are")
    parser.add_argument("--data", action="append", metavar="NAME", help="only the runs on this data set; several times")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every run")
    parser.add_argument(
        "--lost-after",
        type=_lost_after,
        default=LOST_AFTER,
        metavar="SECONDS",
        help="take a worker for dead after so long without a sign of life "
        f"(default: {LOST_AFTER}, at least {LEAST_LOST_AFTER})",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="train again the runs that a fine-tuning goes on from, where their folders are not here",
    )
    parser.add_argument("--tables", action="store_true", help="run nothing: make the tables of what is finished")
    return parser


def _lost_after(text: str) -> int:
    seconds = positive(text)
    if seconds < LEAST_LOST_AFTER:
        raise argparse.ArgumentTypeError(
            f"{text} is too short: workers give a sign of life every {BEAT} seconds, and a few may be late. "
            f"{LEAST_LOST_AFTER} is the least"
        )
    return seconds


def _list(options: argparse.Namespace) -> int:
    from surelabel.cli.study_list import listing

    if options.name is None and (options.data or options.set):
        raise UserError("--list with --data or --set is of one study: name it")
    studies = list(STUDIES.values()) if options.name is None else [find(options.name)]
    asked = [(study, chosen(study.cells(options.scale), options)) for study in studies]
    _show(listing(options.scale, asked, options.seeds, results.read_all(Path(options.out) / "results" / "runs")))
    return 0


def _place(options: argparse.Namespace) -> Place:
    out = Path(options.out)
    storage = options.storage or f"sqlite:///{(out / 'runs' / 'study.sqlite3').resolve()}"
    where = None if options.data_dir is None else str(Path(options.data_dir).resolve())
    return Place(out.resolve(), storage, options.lost_after, where, options.again)


def run_study(study: Study, options: argparse.Namespace, place: Place) -> int:
    cells = chosen(study.cells(options.scale), options)
    jobs = jobs_of(cells, options.seeds)
    by_key = {job_key(job): job for job in jobs}
    non_defaults: set[str] = set()
    if not options.tables:
        code = _share_out(jobs, by_key, place, options.workers, non_defaults)
        if code:
            return code
    return _write(study, cells, options, by_key, place, non_defaults)


def _share_out(jobs: Sequence[Job], by_key: dict[str, Job], place: Place, workers: int, non_defaults: set[str]) -> int:
    """Let the missing runs wait, and work on them; 0 where nothing was left to stop.

    `told` gets the runs of which it is told that their fine-tuning is left to others.
    """
    stored = results.read_all(place.results)
    queue = Queue(place.storage, place.lost_after)
    queue.offer({key: stored[key] for key in by_key.keys() & stored.keys()})
    complete = queue.counts(by_key)["complete"]
    missing = [job for key, job in by_key.items() if key not in complete]
    say(f"{len(jobs)} runs: {len(complete)} finished, {len(missing)} to do")
    if not missing:
        return 0
    others = left(queue, by_key, place)
    non_defaults.update(others)
    for words in others.values():
        say(words)
    _check_needs([job for job in missing if not job.before or job_key(job.before) not in others], place)
    queue.add([job_key(job) for job in missing])
    if workers == 1:
        return _alone(jobs, place)
    return _together(jobs, place, workers)


def _check_needs(jobs: Sequence[Job], place: Place) -> None:
    """What is not there should be told before hours of work: data, and the packages of a pretrained network."""
    from surelabel.data.open import open_data
    from surelabel.models.backbones import pretrained

    if any(job.run.encoder == pretrained.NAME for job in jobs):
        pretrained.packages()

    for name, where in dict.fromkeys((job.run.data, data_dir(job, place.data_dir)) for job in jobs):
        try:
            open_data(name, where)
        except UserError as error:
            raise UserError(f"{error}. To leave it out, name the others: --data NAME") from error


def _alone(jobs: Sequence[Job], place: Place) -> int:
    from surelabel.utils.signals import Stopped, stopping

    try:
        with stopping():
            work(jobs, place)
    except (Stopped, SystemExit) as stopped:
        say("Stopped and saved. The same command goes on from here")
        return stopped.exit_code if isinstance(stopped, Stopped) else int(str(stopped.code))
    return 0


def _together(jobs: Sequence[Job], place: Place, workers: int) -> int:
    """Several processes, on one GPU each where there are some, in turn.

    Ctrl-C reaches them by itself, and SIGTERM is passed on to them: they save, and end.
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
    counts = Queue(place.storage, place.lost_after).counts([job_key(job) for job in jobs])
    if not any(codes) or not (counts["waiting"] or counts["running"]):
        return 0  # where a worker was lost, the others did its work
    say("Not all workers came to the end. The same command goes on from here")
    return max(codes, key=abs)


def _gpus() -> list[str]:
    """The GPUs that CUDA may use here, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [word for word in named.split(",") if word] or list(map(str, range(torch.cuda.device_count())))


def _write(
    study: Study,
    cells: Sequence[Cell],
    options: argparse.Namespace,
    by_key: dict[str, Job],
    place: Place,
    non_defaults: set[str],
) -> int:
    """Results that other machines made are written here too, then the tables."""
    from surelabel.studies import charts as figures
    from surelabel.studies import page
    from surelabel.studies.layout import lay_out

    stored = results.read_all(place.results)
    errors: dict[str, str] = {}
    others: dict[str, str] = {}
    if options.storage or not options.tables:
        queue = Queue(place.storage, place.lost_after)
        errors = queue.errors(by_key)
        if not options.tables:
            others = left(queue, by_key, place)
        for key, record in queue.records(by_key.keys() - stored.keys()).items():
            stored[key] = record
            results.write(record, place.results, folder_name(by_key[key]))
    done = sum(key in stored for key in by_key)
    state = "" if done == len(by_key) else f"{done} of {len(by_key)} runs are finished."
    state = f"{in_words(options)} {state}".strip()
    layout = lay_out(study, cells, stored, options.seeds)
    tables = page.tables_of(study, layout)
    drawn = figures.draw(study, layout)
    written = page.write(study, options.scale, tables, drawn, place.out / "results", state, part=part_of(options))
    _show("\n" + "\n\n".join(table.markdown() for table in tables) + "\n")
    for key, error in errors.items():
        say(f"Failed: {by_key[key].name}: {error}")
    for base, words in others.items():
        if base not in non_defaults:
            say(words)
    say(f"{state} In {', '.join(map(str, written))}".strip())
    return 1 if errors or others else 0


def _show(text: str) -> None:
    """Print; whoever reads it, such as `head`, may leave early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _still(study: Study, folder: Path) -> int:
    from surelabel.studies import page
    from surelabel.studies import static as still

    tables, drawn, files = still.make(study.name, folder)
    written = page.write(study, None, tables, drawn, folder, pictures=files)
    if tables:
        _show("\n\n".join(table.markdown() for table in tables) + "\n")
    say(f"In {', '.join(map(str, written))}")
    return 0
