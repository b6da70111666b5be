"""surelabel predict: The class and its probability for each sample, as CSV."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.cli.parser import positive
from surelabel.cli.say import say
from surelabel.data.part import WHOLE, Part
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration
    from surelabel.inference.trained_run import TrainedRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "data", metavar="DATA",
        help="a folder, .npz, .npy, .csv, .parquet or .jsonl file, or a data set by name; of arrays, tar shards and "
        "named sets their test part, where there is one",
    )  # fmt: skip
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the CSV file to write")
    add_part(parser)
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="share the parts out among the workers of this Ray cluster, and join them"
    )
    parser.add_argument("--parts", type=positive, metavar="N", help="with --ray: how many (default: 4 for each core)")
    parser.add_argument("--data-dir", metavar="DIR", help="where the files of a named data set are")
    parser.add_argument(
        "--calibrate", metavar="HELD_OUT",
        help="correct the confidence by labelled samples that the run has not seen: data like DATA, a .csv file that "
        "names pictures in DATA and their classes, or test:N for N samples of the run's test set; and add to each "
        "sample a set of classes that holds the right one with the probability --coverage",
    )  # fmt: skip
    parser.add_argument(
        "--all-probabilities", action="store_true", help="add a column p_CLASS with the probability of each class"
    )
    parser.add_argument("--coverage", type=float, metavar="SHARE", help="of the sets of classes (default: 0.9)")
    parser.add_argument(
        "--sets", type=float, metavar="SHARE",
        help="of a run of sure: add to each sample a set of classes that holds the right one with this probability, by "
        "the labels that were left out in turn",
    )  # fmt: skip


def add_part(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--part", metavar="K/N",
        help="only the K-th of N parts, such as 3/16, into a file of its own beside FILE: any scheduler can share "
        "them out. surelabel join FILE makes one of them, the same as without --part",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    coverage = coverage_asked(options)
    check_sets(options)
    part = WHOLE if options.part is None else Part.parse(options.part)
    if options.ray is not None:
        return _on_ray(options)
    if options.parts is not None:
        raise UserError("--parts is of --ray; without it, give each process its --part K/N")
    from surelabel.inference.outputs import check_output
    from surelabel.inference.predict_file import predict_file
    from surelabel.inference.trained_run import load
    from surelabel.training.display import describe_skipped

    trained = load(options.folder)
    check_output(options.out, [trained], options.data, options.calibrate, options.data_dir)
    calibration = None if options.calibrate is None else _calibrated(trained, options, coverage)
    written = predict_file(
        trained, options.data, Path(options.out), options.data_dir, part, options.sets, calibration,
        options.all_probabilities,
    )  # fmt: skip
    for note in written.notes:
        say(note, options.out)
    say(f"{written.count} predictions in {written.path}", options.out)
    if options.sets is not None and written.count:
        from surelabel.inference.learners import label_scores
        from surelabel.inference.prediction_sets import promise

        say(promise(label_scores(trained), options.sets, written.set_sizes), options.out)
    if written.skipped:
        say(describe_skipped(written.skipped), options.out)
    return 0


def _on_ray(options: argparse.Namespace) -> int:
    if options.calibrate is not None or options.part is not None:
        raise UserError("--ray does not go together with --calibrate or --part: leave one out")
    from surelabel.data.join import join
    from surelabel.data.open import NAMED
    from surelabel.inference.on_ray import Asked, predict_on_ray
    from surelabel.inference.trained_run import load

    run, out, where = Path(options.folder).resolve(), Path(options.out).resolve(), options.data_dir
    load(run).check_sets(options.sets)
    data = options.data if where is not None or options.data in NAMED else str(Path(options.data).resolve())
    where = None if where is None else str(Path(where).resolve())
    asked = Asked(str(run), data, str(out), where, options.sets, options.all_probabilities)
    predict_on_ray(asked, options.ray, options.parts)
    parts = join(out)
    for file in (*parts, out.with_name(f".{out.name}.parts")):
        file.unlink()
    print(f"Predictions in {options.out}, of {len(parts)} parts")
    return 0


def coverage_asked(options: argparse.Namespace) -> float:
    if options.coverage is not None and options.calibrate is None:
        raise UserError("--coverage needs --calibrate HELD_OUT: sets of classes are made by held-out labels")
    return 0.9 if options.coverage is None else float(options.coverage)


def check_sets(options: argparse.Namespace) -> None:
    if options.sets is None:
        return
    if options.calibrate is not None:
        raise UserError("--sets and --calibrate both make sets of classes: leave one out")
    if not 0.5 <= options.sets < 1:
        raise UserError(f"--sets {options.sets:g}: give a number from 0.5, below 1")


def _calibrated(trained: "TrainedRun", options: argparse.Namespace, coverage: float) -> "Calibration":
    from surelabel.training.display import describe_skipped, show_calibration
    from surelabel.utils.console import Screen
    from surelabel.utils.files import is_stdout

    calibration, report = trained.calibrate(options.calibrate, coverage, options.data_dir, options.data)
    if report.skipped:
        say(f"Of the held-out samples, {describe_skipped(report.skipped)}", options.out)
    show_calibration(Screen(stderr=is_stdout(options.out)), asdict(report))
    return calibration
