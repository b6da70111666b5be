"""Command lines, parsed as `surelabel` parses them."""

import argparse
from collections.abc import Sequence

from surelabel.cli.fit import Options, read_options
from surelabel.cli.main import parser


def parse(line: str | Sequence[str]) -> argparse.Namespace:
    words = line.split() if isinstance(line, str) else list(line)
    return parser(words).parse(words)


def fit_options(words: Sequence[str]) -> Options:
    """What `surelabel fit WORDS` would train."""
    return read_options(parse(["fit", *words]))
