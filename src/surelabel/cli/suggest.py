"""surelabel suggest: Which unlabelled samples of a run's pool to label next: uncertain ones that differ."""

import argparse
from pathlib import Path

from surelabel.cli.say import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument("-n", "--number", type=int, default=20, metavar="N", help="how many (default: 20)")
    parser.add_argument(
        "-o", "--out", default="suggest.csv", metavar="FILE", help="the CSV file (default: suggest.csv)"
    )


def run(options: argparse.Namespace) -> int:
    from surelabel.inference.suggest import suggest_to_csv
    from surelabel.inference.trained_run import load

    found = suggest_to_csv(load(options.folder), options.number, Path(options.out))
    say(f"{len(found)} samples to label next, in {options.out}", options.out)
    return 0
