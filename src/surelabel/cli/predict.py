"""surelabel predict: The class and its probability for each sample, as CSV."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

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


def run(options: argparse.Namespace) -> int:
    coverage = coverage_asked(options)
    check_sets(options)
    from surelabel.inference.trained_run import load
    from surelabel.training.display import describe_skipped

    trained = load(options.folder)
    calibration = None if options.calibrate is None else _calibrated(trained, options, coverage)
    predictions = trained.predict(options.data, options.data_dir, options.sets)
    for note in predictions.notes:
        print(note)
    predictions.save(options.out, calibration, options.all_probabilities)
    print(f"{len(predictions)} predictions in {options.out}")
    if predictions.sets is not None:
        from surelabel.inference.learners import label_scores
        from surelabel.inference.prediction_sets import promise

        print(promise(label_scores(trained), options.sets, predictions.sets))
    if predictions.skipped:
        print(describe_skipped(predictions.skipped))
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
    from rich.console import Console

    from surelabel.training.display import describe_skipped, show_calibration

    calibration, report = trained.calibrate(options.calibrate, coverage, options.data_dir, options.data)
    if report.skipped:
        print(f"Of the held-out samples, {describe_skipped(report.skipped)}")
    show_calibration(Console(), asdict(report))
    return calibration
