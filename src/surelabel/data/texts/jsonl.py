"""Read JSON lines, one object each, as the columns of a table."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.tables.columns import Columns, column
from surelabel.utils.errors import UserError

SCALAR = (str, int, float, bool, type(None))


def read_jsonl(path: Path, text: str) -> Columns:
    """The values under each key, missing where a line lacks it; a key with lists or objects is left out.

    Under the key `text`, there must be texts.
    """
    rows = []
    try:
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    rows.append(row := _object(line, f"{path}, line {number}"))
                    if not isinstance(row.get(text), str | None):
                        raise UserError(f"{path}, line {number}: {text!r} is {str(row[text])[:40]}, not a text")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as JSON lines in UTF-8: {error}") from error
    if not rows:
        raise UserError(f"{path} has no rows")
    keys = dict.fromkeys(key for row in rows for key in row)
    found: Columns = {}
    for key in keys:
        cells = [row.get(key) for row in rows]
        if key == text:
            found[key] = np.array([cell or "" for cell in cells], dtype=object)
        elif all(isinstance(cell, SCALAR) for cell in cells):
            made = column(np.array(cells, dtype=object))
            assert made is not None  # scalars can be written
            found[key] = made
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_int=float)  # as a column has it, which no whole number is too large for
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise UserError(f'{where} is no object, such as {{"text": "...", "label": "..."}}')
    return row
