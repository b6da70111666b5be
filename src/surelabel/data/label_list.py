"""A list of the files whose labels are used, as published splits of ImageNet come: a name a line."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError

SHOWN = 5


def read_listed(path: Path, names: Iterable[str], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples that a list names, sorted. `names` are all samples' files, relative to their folder, in order.

    A line is a file relative to the folder (or to its `train`), or its name alone; of a name alone, the suffix is
    passed over: shards may hold as .jpg what a list calls .JPEG.
    """
    lines = _lines(path)
    found: dict[str, int] = {}
    for sample, name in enumerate(names):
        for key in {name, name.removeprefix("train/"), _key(name)}:
            if key in lines:
                if key in found:
                    raise UserError(
                        f"{path}, line {lines[key]}: {key} is the name of several files; write their folders"
                    )
                found[key] = sample
    missing = [f"{key} (line {line})" for key, line in lines.items() if key not in found]
    if missing:
        shown = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        raise UserError(f"{path} names {len(missing)} files that are not among the training images: {shown}")
    chosen = np.unique(np.fromiter(found.values(), dtype=np.int64, count=len(found)))
    if (labels[chosen] < 0).any():
        key = next(key for key, sample in found.items() if labels[sample] < 0)
        raise UserError(f"{path}, line {lines[key]}: the class of {key} is not known")
    return chosen


def _lines(path: Path) -> dict[str, int]:
    """What is listed, and where."""
    try:
        written = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a text in UTF-8: {error}") from error
    lines: dict[str, int] = {}
    for number, line in enumerate(written, 1):
        if name := line.strip():
            file = str(PurePosixPath(name))
            lines.setdefault(file if "/" in file else _key(file), number)
    if not lines:
        raise UserError(f"{path} is empty: it should name a file a line")
    return lines


def _key(name: str) -> str:
    return PurePosixPath(name).stem
