"""The samples of one tar shard: which members are images, their offsets, and their classes."""

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from PIL import UnidentifiedImageError

from surelabel.data.images.decode import read_header
from surelabel.data.images.formats import SUFFIXES, visible
from surelabel.data.images.limits import check_size
from surelabel.data.shards.tar import Member, read_members
from surelabel.data.source import UNLABELLED
from surelabel.utils.bounded import Malformed, from_json
from surelabel.utils.errors import UserError

MOST_LABEL_BYTES = 2**16
JSON_KEYS = ("label", "class")

Label = int | str | None  # a name as it is written, which may mean unlabelled; None for none


@dataclass
class ShardSamples:
    """The usable images of a shard in file order, and the skipped members with the reasons."""

    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    forms: Counter[tuple[int, int]] = field(default_factory=Counter)  # (height, width)
    grey: bool = True
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass
class _Parts:
    """The members with the same key, which is the path up to the first dot of the file name."""

    image: Member | None = None
    others: dict[str, Member] = field(default_factory=dict)  # by suffix


def read_samples(path: Path) -> ShardSamples:
    """Scan the headers of a shard and of its images, without decoding pixels."""
    found = ShardSamples()
    parts: dict[str, _Parts] = {}
    for member in read_members(path):
        _sort(member, parts, found.skipped, path)
    with path.open("rb", buffering=0) as file:
        for key, part in parts.items():
            if part.image is not None:
                _take(file, key, part, found, path)
            else:
                # Other members may belong to an image; without one, they are reported.
                found.skipped |= {f"{key}{suffix}": _alone(suffix) for suffix in part.others}
    return found


def _alone(suffix: str) -> str:
    if PurePosixPath(f"name{suffix}").suffix in SUFFIXES:
        return f"everything after the first dot ({suffix}) counts as the suffix: keep one dot in the name"
    return "no image has this name"


def _sort(member: Member, parts: dict[str, _Parts], skipped: dict[str, str], path: Path) -> None:
    """Add a member to those of its key, or to `skipped`. Folders and hidden files are ignored."""
    where = PurePosixPath(member.name)
    shown = member.name.encode("utf-8", "backslashreplace").decode()
    if member.kind == "folder":
        return
    if shown != member.name:
        skipped[shown] = "the name of the file is not UTF-8"
    elif where.is_absolute() or ".." in where.parts or not where.name:
        skipped[shown] = "the path leads out of the archive"
    elif not all(map(visible, where.parts)):
        return
    elif member.kind != "file":
        skipped[shown] = "a link" if member.kind == "link" else "neither a file nor a folder"
    else:
        stem, dot, rest = where.name.partition(".")
        suffix = f"{dot}{rest}".lower()
        key = str(where.with_name(stem))
        part = parts.setdefault(key, _Parts())
        if suffix in part.others or (suffix in SUFFIXES and part.image is not None):
            what = "image" if suffix in SUFFIXES else suffix or "file"
            raise UserError(f"{path} has more than one {what} named {key}: keep one")
        if suffix in SUFFIXES:
            part.image = member
        else:
            part.others[suffix] = member


def _take(file: IO[bytes], key: str, part: _Parts, found: ShardSamples, path: Path) -> None:
    image = part.image
    assert image is not None
    label = _label(file, image, part, f"{path}, {key}")
    try:
        check_size(image.size)
        header = read_header(io.BufferedReader(_Window(file, image.offset, image.size)))
    except UnidentifiedImageError:
        found.skipped[image.name] = "not an image of a known format"
        return
    except Exception as error:  # hostile headers make Pillow raise nearly anything
        found.skipped[image.name] = str(error) or type(error).__name__
        return
    found.offsets.append(image.offset)
    found.sizes.append(image.size)
    found.labels.append(label)
    found.forms[header.height, header.width] += 1
    found.grey &= header.grey


def _label(file: IO[bytes], image: Member, part: _Parts, where: str) -> Label:
    """The label in KEY.cls, else in KEY.json, else the first folder of the image's path."""
    readers: dict[str, Callable[[str, str], Label]] = {".cls": _from_text, ".json": _from_json}
    for suffix, read in readers.items():
        if suffix not in part.others:
            continue
        member = part.others[suffix]
        if member.size > MOST_LABEL_BYTES:
            raise UserError(f"{where}{suffix} has {member.size:,} bytes, too many for a label")
        file.seek(member.offset)
        try:
            label = read(file.read(member.size).decode("utf-8"), f"{where}{suffix}")
        except UnicodeDecodeError as error:
            raise UserError(f"{where}{suffix} is not UTF-8: {error}") from error
        if label is not None:
            return None if label in (UNLABELLED, str(UNLABELLED)) else label
    folders = PurePosixPath(image.name).parts[:-1]
    return folders[0] if folders else None


def _from_text(text: str, where: str) -> Label:
    text = text.strip()
    number = text.removeprefix("-")
    return int(text) if number.isascii() and number.isdigit() and len(number) < 10 else text


def _from_json(text: str, where: str) -> Label:
    try:
        read = from_json(text)
    except Malformed as error:
        raise UserError(f"{where}: {error}") from error
    for key in JSON_KEYS:
        label = read.get(key) if isinstance(read, dict) else None
        if isinstance(label, bool | float | list | dict):
            raise UserError(f"{where}: {key} is {label!r}: write the name or number of the class")
        if isinstance(label, int | str):
            return label
    return None


class _Window(io.RawIOBase):
    """A section of a file as a file object, so that only the needed bytes are read."""

    def __init__(self, file: IO[bytes], offset: int, size: int) -> None:
        self._file, self._offset, self._size, self._place = file, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        self._place = place + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)
        count = max(0, min(len(room), self._size - self._place))
        self._file.seek(self._offset + self._place)
        content = self._file.read(count)
        room[: len(content)] = content
        self._place += len(content)
        return len(content)
