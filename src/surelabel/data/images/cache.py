"""The images of a folder, decoded once into a file that later runs map into memory.

The file is used as long as the names, sizes and modification times of the images are the same.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.data.images.common_size import common_form
from surelabel.data.images.decode import Header, decode, read_header
from surelabel.data.images.limits import most_bytes, most_pixels
from surelabel.data.images.map_files import Progress, map_files
from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.utils import cache
from surelabel.utils.errors import UserError
from surelabel.utils.places import cache_folder

VERSION = 3  # increase it when `decode` or `common_form` changes
MOST_BYTES = 2**33  # of images held in memory


@dataclass(frozen=True)
class Pictures:
    """Decoded images [N, C, H, W], the row of each file, and why other files were skipped."""

    images: NDArray[np.uint8]
    rows: dict[str, int]
    skipped: dict[str, str]


def decoded(
    folder: Path,
    files: Sequence[str],
    form: Header | int | None = None,
    progress: Progress | None = None,
    scaling: Scaling = PLAIN,
) -> Pictures:
    """Decode these files of a folder, or map them if they were decoded before.

    All images get the same height, width and channels: `form`, or `common_form` for this size.
    """
    root = cache.writable_cache()
    if root is None:
        return _decode_all(folder, files, form, progress, scaling)
    path = root / f"pictures-{cache.content_key((str(folder.resolve()), str(form), repr(scaling)))}.pixels"
    limits = str((most_pixels(), most_bytes()))
    state = cache.content_key([limits, *(part for file in files for part in (file, _stamp(folder / file)))])
    if (found := _stored(path, state)) is None:
        with cache.locked(path):
            found = _stored(path, state) or _decode_all(folder, files, form, progress, scaling, path, state)
    return found


def _stored(path: Path, state: str) -> Pictures | None:
    found = cache.fetch(path, np.uint8, version=VERSION, state=state)
    if found is None:
        return None
    return Pictures(found.array, found.info["rows"], found.info["skipped"])


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except (OSError, ValueError):  # a link to nowhere: reported as unreadable later
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


def _decode_all(
    folder: Path,
    files: Sequence[str],
    form: Header | int | None,
    progress: Progress | None,
    scaling: Scaling,
    path: Path | None = None,
    state: str = "",
) -> Pictures:
    """Decode all files, into a new file at `path` if there is room for it, else into memory."""
    skipped: dict[str, str] = {}
    retryable: list[str] = []
    if not isinstance(form, Header):
        headers, skipped = map_files(lambda _, path: read_header(path), folder, files, retryable=retryable)
        files = list(headers)
        form = common_form(list(headers.values()), form)
    height, width, grey = form.height, form.width, form.grey
    shape = (len(files), 1 if grey else 3, height, width)
    rows = {file: row for row, file in enumerate(files)}

    def fill(images: NDArray[np.uint8]) -> Pictures:
        def fill_row(file: str, path: Path) -> int:
            images[rows[file]] = decode(path, height, width, grey, scaling)
            return rows[file]

        found, failed = map_files(fill_row, folder, files, progress, retryable)
        return Pictures(images, found, skipped | failed)

    found = None
    if path is not None and files:
        with suppress(UserError), cache.new_array(path, shape, np.uint8) as (images, info):
            found = fill(images)
            info["version"] = VERSION
            info["state"] = None if retryable else state  # None: some failed files may work the next time
            info["rows"] = found.rows
            info["skipped"] = found.skipped
    if found is None:
        needed = math.prod(shape)
        if needed > MOST_BYTES:
            raise UserError(
                f"{folder}: {len(files)} images of {height} × {width} pixels take {needed / 2**30:.0f} GiB, "
                f"and there is no room for them in {cache_folder()}: "
                "set $SURELABEL_CACHE to a folder on a larger disk, or give a smaller size"
            )
        found = fill(np.empty(shape, np.uint8))
    return found
