"""The members of an uncompressed tar archive and where their bytes lie. Nothing is ever unpacked."""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from surelabel.utils.errors import UserError

# What the standard library raises on damaged or hostile archives.
DAMAGE = (tarfile.TarError, ValueError, LookupError, OverflowError, EOFError, MemoryError, RecursionError)


@dataclass(frozen=True)
class Member:
    """A member's name, what it is, and where in the archive its bytes lie."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    offset: int
    size: int


def read_members(path: Path) -> Iterator[Member]:
    """The members of an archive in order; a `UserError` where it is damaged, cut off, or of an unknown form."""
    try:
        with (
            path.open("rb", buffering=0) as file,
            tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as archive,
        ):
            end = path.stat().st_size
            for member in archive:
                _check(path, member, archive.offset, end)
                yield _member(member)
            _refuse_rest(path, file, archive.offset)
    except DAMAGE as error:
        raise UserError(f"{path} is no tar archive, or damaged: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _check(path: Path, member: tarfile.TarInfo, following: int, end: int) -> None:
    """Refuse a member whose bytes cannot be read as they lie; `following` is where the next header begins."""
    if member.issparse() or any(key.startswith("GNU.sparse") for key in member.pax_headers):
        raise UserError(f"{path} has a sparse member at byte {member.offset:,}: make it again without --sparse")
    if member.size < 0:  # older Pythons would go round in circles
        raise tarfile.ReadError(f"byte {member.offset:,} begins a member of {member.size:,} bytes")
    if following > end or (member.isreg() and member.offset_data + member.size > end):
        raise UserError(
            f"{path} is cut off: byte {member.offset:,} begins a member of {member.size:,} bytes, but {end:,} are all"
        )


def _member(member: tarfile.TarInfo) -> Member:
    kind: Literal["file", "folder", "link", "other"] = "other"
    if member.isreg():
        kind = "file"
    elif member.isdir():
        kind = "folder"
    elif member.issym() or member.islnk():
        kind = "link"
    return Member(member.name, kind, member.offset_data, member.size)


def _refuse_rest(path: Path, file: IO[bytes], start: int) -> None:
    """After the last member, only zeros: `tarfile` stops in silence at a damaged header or an end mark."""
    file.seek(start)
    mark = file.read(tarfile.BLOCKSIZE)
    if len(mark) < tarfile.BLOCKSIZE:
        raise UserError(f"{path} is cut off: it ends without the mark of an archive's end")
    if any(mark):
        raise tarfile.ReadError(f"the header at byte {start:,} is wrong")
    while part := file.read(2**20):
        if part.strip(b"\0"):
            raise UserError(f"{path} goes on behind the mark of its end at byte {start:,}: join tars by tar -A")
