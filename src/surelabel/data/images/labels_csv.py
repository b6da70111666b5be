"""Read labels.csv: a header, then one row per file with its class."""

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
COMPARED = 10_000  # names searched for a similar one; more would take minutes


def read_labels_csv(path: Path, files: Collection[str], folder: Path | None = None) -> dict[str, str]:
    """The class of each labelled file. `files` are the existing ones, relative to the data folder.

    If `folder` is given, the CSV may also contain absolute paths.
    """
    lines: dict[str, int] = {}
    classes: dict[str, str] = {}
    missing = []
    for line, written, label in read_rows(path):
        file = _inside(written, f"{path}, line {line}", folder)
        if file not in files:
            file = file.removeprefix("'")  # see `escape_formula`
        if file in lines:
            before = classes.get(file, "")
            classes_given = f"as {before or 'unlabelled'} and as {label or 'unlabelled'}"
            how = "with the same class" if before == label else classes_given
            raise UserError(f"{path}, lines {lines[file]} and {line}: {written} is listed twice, {how}; keep one line")
        if file not in files:
            missing.append((file, f"{written} (line {line})"))
        lines[file] = line
        if label in MISSING[1:]:
            raise UserError(
                f"{path}, line {line}: {label} may be a class or mean unlabelled: leave the class of unlabelled files "
                "empty, or rename the class"
            )
        if label:
            classes[file] = label
    if missing:
        shown = ", ".join(text for _, text in missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(
            f"{path} names {len(missing)} files that are not in {_called(folder)}: {shown}{_hint(missing[0][0], files)}"
        )
    if not classes:
        raise UserError(f"{path} names no class of any file: write the class beside some of them")
    return classes


def is_suggested(path: Path) -> bool:
    """Whether the labels are of samples that `surelabel suggest` or `fit --accept` ranked, not of random ones."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        first = stream.readline()
    return "rank" in [name.strip().lower() for name in first.split(delimiter_of(first))]


def read_rows(path: Path, sample_columns: tuple[str, ...] = FILE_COLUMNS) -> list[tuple[int, str, str]]:
    """The line number, sample and class of each row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            reader = csv.reader(itertools.chain([first], stream), delimiter=delimiter_of(first), strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            sample_column = _column(path, header, sample_columns)
            class_column = _column(path, header, CLASS_COLUMNS)
            rows = []
            for row in reader:
                if row and len(row) != len(header):
                    raise UserError(f"{path}, line {reader.line_num}: {len(row)} columns instead of {len(header)}")
                if row:
                    rows.append((reader.line_num, row[sample_column].strip(), _unescaped(row[class_column].strip())))
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a CSV file in UTF-8: {error}") from error


def _column(path: Path, header: list[str], names: tuple[str, ...]) -> int:
    present = [index for index, name in enumerate(header) if name in names]
    if len(present) != 1:
        raise UserError(
            f"{path} needs exactly one column named {' or '.join(names)}, but its first line is: "
            f"{', '.join(header)[:200] or '(empty)'}"
        )
    return present[0]


def _unescaped(written: str) -> str:
    """The class without the apostrophe that `escape_formula` adds."""
    return written[1:] if escape_formula(written[1:]) == written else written


def _inside(written: str, where: str, folder: Path | None) -> str:
    """The file relative to the data folder."""
    path = PurePosixPath(written)
    if not path.parts:
        raise UserError(f"{where}: the file name is empty")
    absolute = Path(written).is_absolute()
    if absolute and folder is not None:
        # The path may contain the folder as given, or with symbolic links resolved.
        around = [place for place in (folder.absolute(), folder.resolve()) if Path(written).is_relative_to(place)]
        absolute = not around
        path = PurePosixPath(Path(written).relative_to(around[0]).as_posix()) if around else path
    if absolute or ".." in path.parts:
        raise UserError(f"{where}: {written} leads out of {_called(folder)}: give paths relative to it")
    return str(path)


def _called(folder: Path | None) -> str:
    return "the data folder" if folder is None else f"the data folder {folder}"


def _hint(missing: str, files: Collection[str]) -> str:
    """The file that is probably meant, or an example of an existing one, for the error message."""
    if not files:
        return ""
    wanted, there = PurePosixPath(missing), [PurePosixPath(file) for file in sorted(files)]
    names = {wanted.name.lower(), wanted.stem.lower()}
    # Mostly the name is right, but with a wrong folder before it or without a suffix.
    alike = [file for file in there if file.stem.lower() in names]
    # Compared without suffixes: names are not similar because they all end in .png.
    bare = {str(file.parent / file.stem): file for file in (alike or there)[:COMPARED]}
    near = difflib.get_close_matches(str(wanted.parent / wanted.stem), bare, n=1, cutoff=0.0 if alike else 0.6)
    return f" (did you mean {bare[near[0]]}?)" if near else f" (there is, for example, {there[0]})"
