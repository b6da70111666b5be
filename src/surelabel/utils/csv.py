"""CSV files that may be opened in a spreadsheet."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from surelabel.utils.files import atomic_write

DELIMITERS = ",;\t"  # the first if there is only one column
LONGEST = 2**24  # characters of a line
NUMBER = re.compile(r"[+-]\d+(\.\d*)?")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str | int | float]]) -> None:
    """Write one line per row: texts escaped, floats with six decimals."""
    with atomic_write(path) as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(
            [f"{cell:.6f}" if isinstance(cell, float) else escape_formula(cell) for cell in row] for row in rows
        )


def lines_of(stream: IO[str]) -> Iterator[str]:
    """The lines of a text file. Raises a `csv.Error` at one too long for a table, before it fills the memory."""
    while line := stream.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith("\n"):
            raise csv.Error(f"it has a line of more than {LONGEST:,} characters")
        yield line


def delimiter_of(header: str) -> str:
    """The delimiter of a file with this first line: a comma, a semicolon or a tab."""
    return max(DELIMITERS, key=lambda sign: _columns(header, sign))


def _columns(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:  # a long line exceeds the size limit of a single field
        return 1


def escape_formula(text: str | int) -> str:
    """Prefix a text with ' if a spreadsheet would run it as a formula (formula injection).

    Numbers stay as they are: -1 may be a class.
    """
    text = str(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not NUMBER.fullmatch(text) else text
