"""Read files from a folder, a .tar.gz or a .gz into memory. Nothing is unpacked to disk."""

import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Protocol

from surelabel.utils.errors import UserError

# Six times the largest official file: whatever unpacks to more is an attack or a mistake.
MOST_BYTES = 2**30
BLOCK = 2**20
DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, OverflowError)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_files(place: Path, names: Collection[str]) -> dict[str, bytes]:
    """The contents of these files of a folder, or of the .tar.gz members with these base names."""
    if place.is_dir():
        found = {name: read_file(place / name) for name in names if (place / name).is_file()}
    else:
        found = _from_tar(place, names)
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(f"{place} lacks {', '.join(missing)}: download or unpack it again")
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
                        raise UserError(f"{path} holds {name} more than once: download it again")
                    found[name] = _read(content, path)
                    if len(found[name]) != member.size:
                        raise EOFError(f"{name} has {len(found[name]):,} bytes instead of {member.size:,}")
            # gzip compares its checksum only when the end is reached.
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
            raise UserError(f"{path} unpacks to more than {MOST_BYTES:,} bytes: it is not the official file")
    return b"".join(blocks)


def _damaged(path: Path, error: Exception) -> UserError:
    size = f" of {path.stat().st_size:,} bytes" if path.is_file() else ""
    return UserError(f"{path}{size} is truncated or corrupt ({error}): download it again")
