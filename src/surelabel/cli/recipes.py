"""surelabel recipes: The recipes: the paper's benchmarks, for each method."""

import argparse

from surelabel.config.benchmarks import BENCHMARKS
from surelabel.config.methods import METHODS, TEACHERS
from surelabel.config.recipes import SIZES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace) -> int:
    print(f"surelabel fit --recipe [METHOD-]BENCHMARK --size {'|'.join(SIZES)}\n")
    print("benchmarks: " + ", ".join(BENCHMARKS))
    print("methods:    " + ", ".join(METHODS) + " (see `surelabel methods`)")
    print("            each also with +" + " or +".join(TEACHERS) + ": an averaged network makes the pseudo-labels")
    return 0
