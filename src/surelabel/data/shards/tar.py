"""List the members of an uncompressed tar archive with their offsets. Nothing is unpacked."""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from surelabel.utils.errors import UserError

Kind = Literal["file", "folder", "link", "other"]
# What the standard library raises on damaged or hostile archives.
DAMAGE = (tarfile.TarError, ValueError, LookupError, OverflowError, EOFError, MemoryError, RecursionError)


@dataclass(frozen=True)
class Member:
    """The name and kind of a member, and the place of its bytes in the archive."""

    name: str
    kind: Kind
    offset: int
    size: int


def read_members(path: Path) -> Iterator[Member]:
    """The members of an archive in order. Raises UserError if it is damaged or not supported."""
    try:
        with (
            path.open("rb", buffering=0) as file,
            tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as archive,
        ):
            end = path.stat().st_size
            for member in archive:
                _check(path, member, archive.offset, end)
                yield Member(member.name, _kind(member), member.offset_data, member.size)
            _check_end(path, file, archive.offset)
    except DAMAGE as error:
        raise UserError(f"{path} is damaged or not a tar archive: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _check(path: Path, member: tarfile.TarInfo, following: int, end: int) -> None:
    """Reject a member that cannot be read in place; `following`: offset of the next header."""
    if member.issparse() or any(key.startswith("GNU.sparse") for key in member.pax_headers):
        raise UserError(f"{path} has a sparse member at byte {member.offset:,}: make it again without --sparse")
    if member.size < 0:  # older Pythons would loop for ever
        raise tarfile.ReadError(f"byte {member.offset:,} begins a member of {member.size:,} bytes")
    if following > end or (member.isreg() and member.offset_data + member.size > end):
        raise UserError(
            f"{path} is cut off: the member at byte {member.offset:,} has {member.size:,} bytes, "
            f"but the file ends at {end:,}"
        )


def _kind(member: tarfile.TarInfo) -> Kind:
    if member.isreg():
        return "file"
    if member.isdir():
        return "folder"
    return "link" if member.issym() or member.islnk() else "other"


def _check_end(path: Path, file: IO[bytes], start: int) -> None:
    """Reject all but zeros after the last member: `tarfile` stops silently at a damaged header."""
    file.seek(start)
    mark = file.read(tarfile.BLOCKSIZE)
    if len(mark) < tarfile.BLOCKSIZE:
        raise UserError(f"{path} is cut off: it has no end-of-archive mark")
    if any(mark):
        raise tarfile.ReadError(f"the header at byte {start:,} is wrong")
    while block := file.read(2**20):
        if block.strip(b"\0"):
            raise UserError(f"{path} continues after its end-of-archive mark at byte {start:,}: join tars with tar -A")
