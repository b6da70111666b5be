"""A text file that lists the labelled files, one per line, as published ImageNet splits do."""

import csv
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.csv import lines_of
from surelabel.utils.errors import UserError

SHOWN = 5


def read_listed(path: Path, names: Iterable[str], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sorted indices of the listed samples; `names` are the paths of all samples.

    A line is a path relative to the folder (or to its `train`), or a bare file name. The suffix of
    a bare name is ignored, since shards may store as .jpg what a list calls .JPEG.
    """
    lines = _lines(path)
    found: dict[str, int] = {}
    for sample, name in enumerate(names):
        whole = normalize("NFC", name)
        for key in {whole, whole.removeprefix("train/"), _key(whole)}:
            if key in lines:
                if key in found:
                    raise UserError(f"{path}, line {lines[key]}: several files are named {key}: add the folder")
                found[key] = sample
    missing = [f"{key} (line {line})" for key, line in lines.items() if key not in found]
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(f"{path} names {len(missing)} files that are not among the training images: {shown}")
    chosen = np.unique(np.fromiter(found.values(), dtype=np.int64, count=len(found)))
    if (labels[chosen] < 0).any():
        key = next(key for key, sample in found.items() if labels[sample] < 0)
        raise UserError(f"{path}, line {lines[key]}: {key} has no label: label it, or remove the line")
    return chosen


def _lines(path: Path) -> dict[str, int]:
    """The line number of each listed file."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            written = list(lines_of(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text: {error}") from error
    lines: dict[str, int] = {}
    for number, line in enumerate(written, 1):
        if name := line.strip():
            file = str(PurePosixPath(normalize("NFC", name)))
            lines.setdefault(file if "/" in file else _key(file), number)
    if not lines:
        raise UserError(f"{path} is empty: list one file per line")
    return lines


def _key(name: str) -> str:
    return PurePosixPath(name).stem
