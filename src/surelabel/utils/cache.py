"""Arrays that take long to compute, stored in files that later runs map into memory.

A file holds the array, a JSON object that describes it, and the checksum of both. It appears under
its name only when complete, and is read only if the checksum is right.
"""

import json
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import DTypeLike, NDArray

from surelabel.utils.bounded import as_text, from_json
from surelabel.utils.files import atomic_write
from surelabel.utils.places import cache_folder

MAGIC = b"slcache1"
END = struct.Struct("<QL8s")  # length of the description, checksum, MAGIC
CHUNK = 2**24
TAG, SIGNATURE = "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir


class Stored(NamedTuple):
    array: NDArray[Any]  # read-only, mapped from the file
    info: dict[str, Any]


def writable_cache() -> Path | None:
    """The cache folder, created if needed; None if it is not writable."""
    try:
        root = cache_folder()
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.W_OK):
            return None
        if not is_cache(root):
            (root / TAG).write_bytes(SIGNATURE + b"\n# This folder is a cache: it may be removed\n")
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None
    return root


def is_cache(folder: Path) -> bool:
    """Whether a folder is marked as a cache, by surelabel or another program."""
    try:
        with (folder / TAG).open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def content_key(parts: Iterable[str | bytes]) -> str:
    """A hash of these parts, in this order, for use in a file name."""
    digest = blake2b(digest_size=12)
    for part in parts:
        content = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for other processes in this block for the same file, and remove what killed ones left.

    On a file system without locks nobody waits: the work is done twice, and the last writer wins.
    """
    lock = FileLock(path.with_suffix(".lock"))
    with suppress(OSError, NotImplementedError):
        lock.acquire()
    try:
        for temporary in path.parent.glob(f".{path.name}.*"):
            with suppress(OSError):
                temporary.unlink()
        yield
    finally:
        lock.release()


def fetch(path: Path, dtype: DTypeLike, **expected: Any) -> Stored | None:
    """The array at `path` if it is undamaged and its description has the expected entries."""
    try:
        with path.open("rb") as file:
            length = file.seek(-END.size, os.SEEK_END)
            described, checksum, magic = END.unpack(file.read())
            if magic != MAGIC or described > length:
                return None
            file.seek(length - described)
            description = file.read(described)
        info = from_json(as_text(description), most_nested=described)
        shape = tuple(info.pop("shape"))
        if math.prod(shape) * np.dtype(dtype).itemsize != length - described:
            return None
        if any(info.get(key) != value for key, value in expected.items()):
            return None
        array = np.memmap(path, dtype, "r", shape=shape)
        return Stored(array, info) if _checksum(array, description) == checksum else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def store(path: Path, array: NDArray[Any], **info: Any) -> None:
    """Write an array and its description. Raises UserError on failure, such as a full disk."""
    with atomic_write(path, "wb") as file:
        array.tofile(file)
        _describe(file, array, info)


@contextmanager
def new_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> Iterator[Stored]:
    """Yield a mapped array and a description to fill, for arrays that do not fit in memory.

    Both are stored on leaving without an error. Raises UserError if the disk is full: on entering,
    or on leaving when the description does not fit; the array can still be used then.
    """
    with atomic_write(path, "w+b") as file:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk would crash the process on a later write
        file.truncate(size)
        array = np.memmap(file, dtype, "r+", shape=shape)
        stored = Stored(array, {})
        yield stored
        array.flush()
        file.seek(0, os.SEEK_END)
        _describe(file, array, stored.info)


def _describe(file: IO[bytes], array: NDArray[Any], info: dict[str, Any]) -> None:
    description = json.dumps({**info, "shape": array.shape}).encode()
    file.write(description + END.pack(len(description), _checksum(array, description), MAGIC))


def _checksum(array: NDArray[Any], description: bytes) -> int:
    checksum = zlib.crc32(description)
    content = array.reshape(-1).view(np.uint8)
    for start in range(0, len(content), CHUNK):
        checksum = zlib.crc32(content[start : start + CHUNK].data, checksum)
    return checksum
