"""surelabel join: One file of the parts that predict --part or embed --part have written."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="FILE", type=Path, help="the file to write, as -o of the command named it")


def run(options: argparse.Namespace) -> int:
    from surelabel.data.join import join

    parts = join(options.out)
    print(f"{options.out}: joined from {len(parts)} parts, which can be removed: {parts[0]} to {parts[-1].name}")
    return 0
