"""surelabel methods: All methods: what each does, and the paper that it comes from."""

import argparse

from surelabel.config.methods import METHODS, ON_FEATURES, TEACHERS
from surelabel.config.papers import described


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace) -> int:
    wide = max(map(len, METHODS))
    for name in sorted(METHODS, key=_by_year):
        what, paper = described(name)
        print(f"{name:{wide}}  {what}" + ("" if paper is None else f" ({paper})"))
    print(
        f"\nEach but {', '.join(ON_FEATURES)} also with {' or '.join(f'+{name}' for name in TEACHERS)}: an average of"
    )
    print("the network makes the pseudo-labels. Their parts: docs/methods.md")
    return 0


def _by_year(name: str) -> tuple[bool, int]:
    """Methods with a Bayesian head last, and otherwise by year."""
    paper = described(name)[1]
    return name.startswith("bam-"), 0 if paper is None else paper.year
