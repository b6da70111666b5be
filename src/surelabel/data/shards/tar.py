"""The members of a tar archive and where their bytes lie. Names stay text: nothing is ever unpacked to them.

Own code, as an index needs little of a tar's abilities and each of the others is a risk: what is not understood in
full ends in an error. POSIX (ustar, pax) and GNU archives are read, uncompressed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from surelabel.utils.errors import UserError

BLOCK = 512
EMPTY = bytes(BLOCK)
# A longer name or extended header is an attack: file systems end at 4 KiB.
MOST_EXTENSION = 2**16

Kind = Literal["file", "folder", "link", "other"]
KINDS: dict[bytes, Kind] = {
    **dict.fromkeys((b"\0", b"0", b"7"), "file"),
    b"5": "folder",
    **dict.fromkeys((b"1", b"2"), "link"),
    **dict.fromkeys((b"3", b"4", b"6"), "other"),
}


@dataclass(frozen=True)
class Member:
    """A member's name, what it is, and where in the archive its bytes lie."""

    name: str
    kind: Kind
    offset: int
    size: int


class _Damage(Exception):
    pass


def read_members(path: Path) -> Iterator[Member]:
    """The members of an archive in order; a `UserError` where it is damaged, cut off, or of an unknown form."""
    try:
        with path.open("rb", buffering=0) as file:
            yield from _members(file, path.stat().st_size)
    except _Damage as damage:
        raise UserError(f"{path} {damage}") from damage
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error


def _members(file: IO[bytes], end: int) -> Iterator[Member]:
    position = 0
    extended: dict[str, str] = {}  # by a header that came before, for the member after it
    while (header := _header(file, position, end)) != EMPTY:
        code = header[156:157]
        size = int(extended["size"]) if "size" in extended else _number(header[124:136], position)
        start = position + BLOCK
        # As tar does: a link's or a folder's size says nothing about the archive.
        held = size if code not in KINDS or KINDS[code] == "file" else 0
        if start + held > end:
            raise _Damage(f"is cut off: byte {position:,} begins a member of {size:,} bytes, but {end:,} are all")
        position = start + -(-held // BLOCK) * BLOCK
        if code == b"S":
            raise _Damage(f"has a sparse member at byte {start - BLOCK:,}: make it again without --sparse")
        if code in (b"L", b"K", b"x"):
            extended |= _extension(code, _content(file, start, size))
        elif code != b"g":  # which holds what is common to all members: a date, a comment
            name = extended.get("path") or _name(header)
            # The oldest tars know a folder by its name alone.
            kind = KINDS.get(code, "other") if not name.endswith("/") else "folder"
            yield Member(name, kind, start, size)
            extended = {}
    _check_end(file, position, end)


def _header(file: IO[bytes], position: int, end: int) -> bytes:
    file.seek(position)
    header = file.read(BLOCK)
    if len(header) < BLOCK:
        raise _Damage(f"is cut off: it ends at byte {end:,} without the mark of an archive's end")
    if header != EMPTY:
        # The sum is taken with spaces in its own place.
        expected = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if _number(header[148:156], position) != expected:
            raise _Damage(f"is no tar archive, or damaged: the header at byte {position:,} has a wrong checksum")
    return header


def _number(field: bytes, position: int) -> int:
    if field[0] == 0x80:  # too large for octal digits
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not all(digit in b"01234567" for digit in digits):
        raise _Damage(
            f"is no tar archive, or damaged: the header at byte {position:,} has {field!r} in place of a number"
        )
    return int(digits or b"0", 8)


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0" and (prefix := header[345:500].partition(b"\0")[0]):
        name = prefix + b"/" + name
    return name.decode("utf-8", "surrogateescape")


def _content(file: IO[bytes], start: int, size: int) -> bytes:
    if size > MOST_EXTENSION:
        raise _Damage(f"has a name of {size:,} bytes at byte {start:,}: that is an attack, or damage")
    file.seek(start)
    return file.read(size)


def _extension(code: bytes, content: bytes) -> dict[str, str]:
    """What a GNU long name or a pax header says of the next member: its path and its size."""
    if code == b"K":  # the target of a link
        return {}
    if code == b"L":
        return {"path": content.partition(b"\0")[0].decode("utf-8", "surrogateescape")}
    found = {}
    while content:
        length, _, rest = content.partition(b" ")
        # Behind the number of its bytes stands one record, which ends in a newline.
        if not (length.isdigit() and len(length) < 7 and len(length) + 1 < int(length) <= len(content)):
            raise _Damage("is damaged: an extended header has a record of a wrong length")
        record = rest[: int(length) - len(length) - 1]
        key, equals, value = record[:-1].partition(b"=")
        if record[-1:] != b"\n" or not equals or (key == b"size" and not (value.isdigit() and len(value) < 20)):
            raise _Damage("is damaged: an extended header has a record of an unknown form")
        if key.startswith(b"GNU.sparse"):
            raise _Damage("has a sparse member: make it again without --sparse")
        if key in (b"path", b"size"):
            found[key.decode()] = value.decode("utf-8", "surrogateescape")
        content = content[int(length) :]
    return found


def _check_end(file: IO[bytes], position: int, end: int) -> None:
    """Behind the end mark, only zeros: another archive joined on would be passed over in silence."""
    file.seek(position)
    while part := file.read(2**20):
        if part.strip(b"\0"):
            raise _Damage(f"goes on behind the mark of its end at byte {position:,} of {end:,}: join tars by tar -A")
