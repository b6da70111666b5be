"""The pictures of a folder, decoded once into a file that later runs map into memory.

A picture is known by the hash of its bytes. One whose size and time of change are those stored is not read again; one
that was added, touched or renamed is read, and decoded only if its bytes are new.
"""

import json
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from surelabel.data.images.common_size import common_form
from surelabel.data.images.decode import Header, decode, read_header
from surelabel.data.images.map_files import Progress, map_files
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

VERSION = 2  # of the stored form; a change of `decode` or `common_form` needs a new one
MOST_BYTES = 2**33
LOOKED_AT = 64  # stored pictures that are compared with their checksums when they are opened
ORPHANED = 86_400  # seconds after which pixels that no list names belong to no reading that still goes on


@dataclass(frozen=True)
class Picture:
    """What is stored of one picture: the file's size, time of change and hash; its row, and the checksum of that.

    Also what its header says, where that had to be known.
    """

    size: int
    changed: int
    digest: str
    row: int
    checksum: int
    height: int = 0
    width: int = 0
    grey: bool = False


@dataclass(frozen=True)
class Pictures:
    """Decoded pictures [N, C, H, W], what is known of each file, and why some could not be read.

    `state` is a hash of the names, sizes and times of change of all files, the unreadable ones too. `passing` are
    those of them to be tried again.
    """

    images: NDArray[np.uint8]
    files: dict[str, Picture]
    skipped: dict[str, str]
    form: Header
    state: str = ""
    retryable: tuple[str, ...] = ()


def decoded(
    folder: Path, files: Sequence[str], form: Header | int | None = None, progress: Progress | None = None
) -> Pictures:
    """These files of a folder in one form: the one given, or one for all of them with this side (see `common_form`)."""
    place = _place(folder, form)
    before = _read(place) if place else None
    state = _state(folder, files)
    if before is not None and before.state == state:
        opened, _ = map_files(lambda _, path: read_header(path), folder, before.retryable)
        if not opened:
            return before
    headers: dict[str, Header] = {}
    skipped: dict[str, str] = {}
    retryable: list[str] = []
    readable = list(files)
    if not isinstance(form, Header):
        known = {} if before is None else before.files
        headers, skipped = map_files(
            lambda file, path: _header(path, known.get(file)), folder, files, retryable=retryable
        )
        readable = list(headers)
        form = common_form(list(headers.values()), form)
    if before is not None and before.form != form:
        before = None
    name = None if place is None else place.with_name(f"{place.stem}-{uuid4().hex[:8]}.pixels")
    try:
        images, name = _room(name, len(readable), form, folder)
        made = _fill(images, folder, readable, form, before, headers, retryable, progress)
        found = replace(made, skipped=skipped | made.skipped, state=state, retryable=tuple(sorted(retryable)))
        if place is not None and name is not None:
            _store(place, name, found)
    except BaseException:
        if name is not None:
            with suppress(OSError):
                name.unlink(missing_ok=True)
        raise
    return found


def _header(path: Path, old: Picture | None) -> Header:
    if old is not None and old.height and (old.size, old.changed) == _stamp(path):
        return Header(old.height, old.width, old.grey)
    return read_header(path)


def cache_folder() -> Path:
    """$SURELABEL_CACHE, or `surelabel` in the user's cache folder."""
    own = os.environ.get("SURELABEL_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "surelabel")


def writable_cache() -> Path | None:
    """The cache folder; None where nothing can be written."""
    try:
        root = cache_folder()
        root.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or not one to write to
        return None
    return root if os.access(root, os.W_OK) else None


def _place(folder: Path, form: Header | int | None) -> Path | None:
    """Where the list of this folder's pictures is stored; None where nothing can be."""
    root = writable_cache()
    if root is None:
        return None
    key = blake2b(f"{folder.resolve()}\0{form}\0{VERSION}".encode("utf-8", "surrogateescape"), digest_size=12)
    return root / f"pictures-{key.hexdigest()}.json"


def _state(folder: Path, files: Sequence[str]) -> str:
    held = blake2b(digest_size=12)
    for file in files:
        try:
            stamp = _stamp(folder / file)
        except (OSError, ValueError):  # a link to nowhere: it will be told of as unreadable
            stamp = (-1, -1)
        held.update(f"{file}\0{stamp}\0".encode("utf-8", "surrogateescape"))
    return held.hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _room(name: Path | None, count: int, form: Header, folder: Path) -> tuple[NDArray[np.uint8], Path | None]:
    """Uninitialised pictures [count, C, H, W] in a new file of this name or, where there cannot be one, in memory."""
    shape = (count, 1 if form.grey else 3, form.height, form.width)
    needed = int(np.prod(shape))
    if name is not None and needed:
        try:
            with name.open("xb") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, needed)  # a full disk must be found here, not by a crash later
                file.truncate(needed)
            return np.memmap(name, np.uint8, "r+", shape=shape), name
        except OSError:
            name.unlink(missing_ok=True)
    if needed > MOST_BYTES:
        raise UserError(
            f"{folder}: {count} images of {form.height} × {form.width} pixels take {needed / 2**30:.0f} GiB, for which "
            f"there is no room in {cache_folder()}: name a larger place by $SURELABEL_CACHE, or give a smaller size"
        )
    return np.empty(shape, np.uint8), None


def _fill(
    images: NDArray[np.uint8],
    folder: Path,
    files: Sequence[str],
    form: Header,
    before: Pictures | None,
    headers: dict[str, Header],
    retryable: list[str],
    progress: Progress | None,
) -> Pictures:
    """Decode each file into its row, or take it from the pictures stored before."""
    rows = {file: row for row, file in enumerate(files)}
    known = {} if before is None else before.files
    by_digest = {picture.digest: picture.row for picture in known.values()}

    def one(file: str, path: Path) -> Picture:
        size, changed = _stamp(path)
        old = known.get(file)
        if old is not None and (old.size, old.changed) == (size, changed):
            digest, source = old.digest, old.row
        else:
            digest = blake2b(path.read_bytes(), digest_size=16).hexdigest() if size else ""
            source = by_digest.get(digest, -1)
        row = rows[file]
        if before is not None and source >= 0:
            images[row] = before.images[source]
        else:
            images[row] = decode(path, form.height, form.width, form.grey)
        header = vars(headers[file]) if file in headers else {}
        return Picture(size, changed, digest, row, zlib.crc32(images[row].tobytes()), **header)

    found, skipped = map_files(one, folder, files, progress, retryable)
    return Pictures(images, found, skipped, form)


def _store(place: Path, pixels: Path, found: Pictures) -> None:
    """Name the pixels in the list, which makes them count; those of the earlier list, or of a killed reading, go."""
    if isinstance(found.images, np.memmap):
        found.images.flush()
    earlier = _pixels_of(place)
    try:
        with atomic_write(place) as file:
            listed = {
                "pixels": pixels.name,
                "shape": found.images.shape,
                "form": list(vars(found.form).values()),
                "files": {name: list(vars(picture).values()) for name, picture in found.files.items()},
            }
            json.dump(listed | {key: getattr(found, key) for key in ("skipped", "state", "retryable")}, file)
    except UserError:  # no room for the list: the pictures stay mapped for this run, and are made anew the next time
        pixels.unlink(missing_ok=True)
        return
    for other in place.parent.glob(f"{place.stem}-*.pixels"):
        with suppress(OSError):
            if other == earlier or (other != pixels and time.time() - other.stat().st_mtime > ORPHANED):
                other.unlink()


def _pixels_of(place: Path) -> Path | None:
    """The pixels that a list names."""
    try:
        return place.with_name(Path(json.loads(place.read_text(encoding="utf-8"))["pixels"]).name)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(place: Path) -> Pictures | None:
    """What is stored here; None where there is nothing, or it is damaged, so that it is made anew."""
    try:
        listed: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        shape = tuple(int(length) for length in listed["shape"])
        pixels = place.with_name(Path(listed["pixels"]).name)
        if pixels.stat().st_size != np.prod(shape):
            return None
        images = np.memmap(pixels, np.uint8, "r", shape=shape)
        files = {name: Picture(*entry) for name, entry in listed["files"].items()}
        form, state, retryable = Header(*listed["form"]), str(listed["state"]), tuple(map(str, listed["retryable"]))
        found = Pictures(images, files, listed["skipped"], form, state, retryable)
        entries = list(files.values())
        looked_at = entries[:: max(1, len(entries) // LOOKED_AT)]
        sound = all(zlib.crc32(images[entry.row].tobytes()) == entry.checksum for entry in looked_at)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    return found if sound else None
