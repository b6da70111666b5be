"""surelabel export: A run's network as one ONNX file, which needs neither torch nor surelabel."""

import argparse

from surelabel.cli.say import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run folder")
    parser.add_argument("--onnx", required=True, metavar="FILE", help="the ONNX file to write")


def run(options: argparse.Namespace) -> int:
    from surelabel.inference.trained_run import load

    difference = load(options.folder).export(options.onnx)
    say(
        f"The network is in {options.onnx}; on samples of the run it differs from torch by {difference:.0e} at most",
        options.onnx,
    )
    return 0
