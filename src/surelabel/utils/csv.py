"""CSV files for people, who may open them in a spreadsheet."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from surelabel.utils.files import atomic_write

DELIMITERS = ",;\t"  # the first where there is one column
NUMBER = re.compile(r"[+-]\d+(\.\d*)?")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str | int | float]]) -> None:
    """A line a row: texts as they are escape_formula, numbers with a fraction to six places."""
    with atomic_write(path) as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(
            [f"{cell:.6f}" if isinstance(cell, float) else escape_formula(cell) for cell in row] for row in rows
        )


def delimiter_of(header: str) -> str:
    """What separates the columns, by the first line; spreadsheets write semicolons where commas are for decimals."""
    return max(DELIMITERS, key=lambda sign: _columns(header, sign))


def _columns(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:  # a long line is too long for one column
        return 1


def escape_formula(text: str | int) -> str:
    """A text that a spreadsheet will show, not compute: a name may begin with =, and did not come from us.

    A number stays one: -1 may be a class.
    """
    text = str(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not NUMBER.fullmatch(text) else text
