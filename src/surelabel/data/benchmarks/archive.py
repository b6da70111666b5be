"""Named files out of a folder, a .tar.gz or a .gz, read into memory: nothing is written where an archive says."""

import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Protocol

from surelabel.utils.errors import UserError

# The largest file that is read is a sixth of this; a compressed file that grows beyond it is an attack or a mistake.
MOST_BYTES = 2**30
BLOCK = 2**20
DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, OverflowError)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_files(place: Path, names: Collection[str]) -> dict[str, bytes]:
    """The contents of the named files in a folder, or of the members of a .tar.gz that have these base names."""
    if place.is_dir():
        found = {name: read_file(place / name) for name in names if (place / name).is_file()}
    else:
        found = _from_tar(place, names)
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(f"{place} is incomplete, without {', '.join(missing)}: fetch or unpack it again")
    return found


def read_file(path: Path) -> bytes:
    """The content of a file, decompressed if its name ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return _read(stream, path)
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _from_tar(path: Path, names: Collection[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    name = PurePosixPath(member.name).name
                    content = archive.extractfile(member) if name in names and member.isreg() else None
                    if content is None:
                        continue
                    if name in found:
                        raise UserError(f"{path} holds {name} more than once: fetch it again")
                    found[name] = _read(content, path)
                    if len(found[name]) != member.size:
                        raise EOFError(f"{name} has {len(found[name]):,} bytes instead of {member.size:,}")
            # The checksum stands behind the last byte, and is compared only when that is reached.
            while stream.read(BLOCK):
                pass
    except DAMAGE as error:
        raise _damaged(path, error) from error
    return found


def _read(stream: _Readable, path: Path) -> bytes:
    blocks, size = [], 0
    while block := stream.read(BLOCK):
        blocks.append(block)
        size += len(block)
        if size > MOST_BYTES:
            raise UserError(f"{path} unpacks to more than {MOST_BYTES:,} bytes, which no official file does")
    return b"".join(blocks)


def _damaged(path: Path, error: Exception) -> UserError:
    size = f" of {path.stat().st_size:,} bytes" if path.is_file() else ""
    return UserError(f"{path}{size} cannot be read, being truncated or corrupt ({error}): fetch it again")
