"""Telling a CSV file that separates its columns by something else than commas."""

from collections.abc import Sequence
from pathlib import Path

from surelabel.utils.errors import UserError


def check_separators(path: Path, header: Sequence[str]) -> None:
    """Many a spreadsheet, where commas are for decimals, saves with semicolons: then all names are one."""
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise UserError(f"{path} seems to separate its columns by ; or tabs: write it with commas")
