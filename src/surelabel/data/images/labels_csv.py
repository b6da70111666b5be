"""Read labels.csv: a header, then one row per file with its class."""

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from surelabel.data.label_rows import LabelRow, Labels, by_sample, read_label_rows
from surelabel.utils.errors import UserError

SHOWN = 5
COMPARED = 10_000  # names searched for a similar one; more would take minutes


def read_labels_csv(path: Path, files: Collection[str], folder: Path | None = None) -> Labels[str]:
    """The row of each labelled file. `files` are the existing ones, relative to the data folder.

    If `folder` is given, the CSV may also contain absolute paths.
    """
    composed = {normalize("NFC", file): file for file in files if not file.isascii()}
    rows = by_sample(path, ((_file(path, row, files, composed, folder), row) for row in read_label_rows(path)))
    missing = [(file, f"{row.sample} (line {row.line})") for file, row in rows.items() if file not in files]
    if missing:
        shown = ", ".join(text for _, text in missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(
            f"{path} names {len(missing)} files that are not in {_called(folder)}: {shown}{_hint(missing[0][0], files)}"
        )
    return Labels(path, rows)


def _file(path: Path, row: LabelRow, files: Collection[str], composed: Mapping[str, str], folder: Path | None) -> str:
    """The file that a row names, whether accents are characters of their own or not (`composed`: in one form)."""
    file = _inside(row.sample, f"{path}, line {row.line}", folder)
    for name in (file, file.removeprefix("'")):  # see `escape_formula`
        if name in files:
            return name
        if (same := composed.get(normalize("NFC", name))) is not None:
            return same
    return file.removeprefix("'")


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
