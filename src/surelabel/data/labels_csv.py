"""A table of files and their classes, in a CSV file with a header."""

import csv
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from surelabel.data.separators import refuse_other_separators
from surelabel.errors import UserError
from surelabel.spreadsheet import shown

FILE_COLUMNS = ("path", "file", "image", "sample")
CLASS_COLUMNS = ("label", "class")
SHOWN = 5


def read_labels_csv(path: Path, files: Collection[str]) -> dict[str, str]:
    """The class of each file that the table gives one; `files` are those that exist, relative to the data folder."""
    lines: dict[str, int] = {}
    classes: dict[str, str] = {}
    missing = []
    for line, written, label in _rows(path):
        file = _inside(written, f"{path}, line {line}")
        if file not in files:
            file = file.removeprefix("'")  # which our own tables have before what a spreadsheet would compute
        if file in lines:
            before = classes.get(file, "")
            same = (
                "with the same class"
                if before == label
                else f"as {before or 'unlabelled'} and as {label or 'unlabelled'}"
            )
            raise UserError(f"{path}, lines {lines[file]} and {line}: {written} is named twice, {same}; keep one line")
        if file not in files:
            missing.append(f"{written} (line {line})")
        lines[file] = line
        if label:
            classes[file] = label
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(f"{path} names {len(missing)} files that are not in the data folder: {shown}")
    if not classes:
        raise UserError(f"{path} names no class of any file: write one beside those that you know")
    return classes


def _rows(path: Path) -> list[tuple[int, str, str]]:
    """Line number, file and class of each row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            refuse_other_separators(path, header)
            file_column = _column(path, header, FILE_COLUMNS)
            class_column = _column(path, header, CLASS_COLUMNS)
            rows = []
            for row in reader:
                if row and len(row) != len(header):
                    raise UserError(f"{path}, line {reader.line_num}: {len(row)} columns instead of {len(header)}")
                if row:
                    rows.append((reader.line_num, row[file_column].strip(), _meant(row[class_column].strip())))
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from error


def _column(path: Path, header: list[str], names: tuple[str, ...]) -> int:
    present = [index for index, name in enumerate(header) if name in names]
    if len(present) != 1:
        raise UserError(
            f"{path} needs a first line that names exactly one column {' or '.join(names)}, but its first line is: "
            f"{', '.join(header)[:200] or '(empty)'}"
        )
    return present[0]


def _meant(written: str) -> str:
    """A class without the apostrophe that `shown` puts before what a spreadsheet would compute."""
    return written[1:] if shown(written[1:]) == written else written


def _inside(written: str, where: str) -> str:
    path = PurePosixPath(written)
    if not path.parts:
        raise UserError(f"{where}: the name of the file is empty")
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"{where}: {written} leads out of the data folder; name files relative to it")
    return str(path)
