"""surelabel evaluate: The metrics of a run on its whole test set, or on other data with labels."""

import argparse
from dataclasses import asdict

from surelabel.utils.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument(
        "data", metavar="DATA", nargs="?",
        help="instead of the test set, samples with labels that the run was not trained on: a folder, .npz, .npy, "
        ".csv, .parquet or .jsonl file, or a data set by name; their test part, where there is one. For a run on a "
        "folder, a .csv file names files in it, and their classes",
    )  # fmt: skip
    parser.add_argument("--data-dir", metavar="DIR", help="where the files of a named data set are")
    parser.add_argument("--bound", action="store_true", help="also the paper's generalisation bound, for a bam- method")
    parser.add_argument("--s2", type=float, default=1.0, help="the bound's variance factor s² (default: 1)")
    parser.add_argument("--delta", type=float, default=0.05, help="the bound's probability to fail (default: 0.05)")


def run(options: argparse.Namespace) -> int:
    if options.data is not None and options.bound:
        raise UserError("--bound is of the run's own test set: leave DATA out")
    if options.data is None and options.data_dir is not None:
        raise UserError("--data-dir is of the DATA to evaluate on: name a data set, or leave it out")
    from surelabel.inference.bound import bound_of
    from surelabel.inference.held_out import evaluate_on
    from surelabel.inference.trained_run import load
    from surelabel.training.display import PLAIN, describe_skipped, show_bound, show_result
    from surelabel.utils.console import Screen

    console, trained = Screen(), load(options.folder)
    if options.data is not None:
        result, skipped = evaluate_on(trained, options.data, options.data_dir)
        if skipped:
            console.print(describe_skipped(skipped), **PLAIN)
        show_result(console, result, of=f"labelled samples of {options.data}")
    elif trained.data.test is None:
        raise UserError(
            f"{trained.config.data} has no test set to evaluate on: give labelled data, by "
            f"surelabel evaluate {options.folder} DATA"
        )
    else:
        show_result(console, trained.metrics)
    if options.bound:
        show_bound(console, asdict(bound_of(trained, options.s2, options.delta)))
    return 0
