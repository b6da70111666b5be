"""A table of files and their classes, in a CSV file with a header."""

import csv
import difflib
import itertools
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from surelabel.data.tables.columns import MISSING
from surelabel.utils.csv import delimiter_of, escape_formula
from surelabel.utils.errors import UserError

FILE_COLUMNS = ("path", "file", "image", "sample")
CLASS_COLUMNS = ("label", "class")
SHOWN = 5
COMPARED = 10_000  # names that are searched for a similar one, lest an error take minutes


def read_labels_csv(path: Path, files: Collection[str], folder: Path | None = None) -> dict[str, str]:
    """The class of each file that the table gives one; `files` are those that exist, relative to the data folder.

    With that `folder`, the table may also name them by absolute paths.
    """
    lines: dict[str, int] = {}
    classes: dict[str, str] = {}
    missing = []
    for line, written, label in _rows(path):
        file = _inside(written, f"{path}, line {line}", folder)
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
            missing.append((file, f"{written} (line {line})"))
        lines[file] = line
        if label in MISSING[1:]:
            raise UserError(
                f"{path}, line {line}: {label} may be a class or mean unlabelled. Leave the class of unlabelled files "
                "empty, or give the class another name"
            )
        if label:
            classes[file] = label
    if missing:
        escape_formula = ", ".join(words for _, words in missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(
            f"{path} names {len(missing)} files that are not in {_called(folder)}: {escape_formula}"
            f"{_there(missing[0][0], files)}"
        )
    if not classes:
        raise UserError(f"{path} names no class of any file: write one beside those that you know")
    return classes


def _rows(path: Path) -> list[tuple[int, str, str]]:
    """Line number, file and class of each row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            reader = csv.reader(itertools.chain([first], stream), delimiter=delimiter_of(first), strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
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
    """A class without the apostrophe that `escape_formula` puts before what a spreadsheet would compute."""
    return written[1:] if escape_formula(written[1:]) == written else written


def _inside(written: str, where: str, folder: Path | None) -> str:
    """The file relative to the data folder."""
    path = PurePosixPath(written)
    if not path.parts:
        raise UserError(f"{where}: the name of the file is empty")
    absolute = Path(written).is_absolute()
    if absolute and folder is not None:
        # The folder may be named as it was given, or by where links lead.
        around = [place for place in (folder.absolute(), folder.resolve()) if Path(written).is_relative_to(place)]
        absolute = not around
        path = PurePosixPath(Path(written).relative_to(around[0]).as_posix()) if around else path
    if absolute or ".." in path.parts:
        raise UserError(f"{where}: {written} leads out of {_called(folder)}; name files relative to it")
    return str(path)


def _called(folder: Path | None) -> str:
    return "the data folder" if folder is None else f"the data folder {folder}"


def _there(missing: str, files: Collection[str]) -> str:
    """Words on what is in the folder instead: the file that is probably meant, or any."""
    if not files:
        return ""
    wanted, there = PurePosixPath(missing), [PurePosixPath(file) for file in sorted(files)]
    names = {wanted.name.lower(), wanted.stem.lower()}
    # Mostly the name is right, and a folder too many or too few stands before it, or a suffix is missing after it.
    alike = [file for file in there if file.stem.lower() in names]
    # Compared without suffixes: that all end in .png makes no two of them similar.
    bare = {str(file.parent / file.stem): file for file in (alike or there)[:COMPARED]}
    near = difflib.get_close_matches(str(wanted.parent / wanted.stem), bare, n=1, cutoff=0.0 if alike else 0.6)
    return f" (did you mean {bare[near[0]]}?)" if near else f" (there is, for example, {there[0]})"
