"""Files that anybody may have written, read in bounded time and memory: bytes, and JSON.

JSON is refused beyond a size, a depth, a number of lists and objects, and 64 bits of a whole number. Whether it has the
right form is for `utils.typed` to say.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 2**24
MOST_SPLIT = 2**28  # of a list of labelled samples: ten for each
MOST_NESTED = 2**20  # lists and objects: an empty one takes twenty times the memory of its text
DEEPEST = 64
MOST_DIGITS = 19
MOST_WORDS = 300  # characters
NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


class Malformed(ValueError):
    """Content that is too large, too deep, or not what it should be; the words follow a file's name."""


def briefly(error: Exception) -> str:
    """What a library says of a file, in one line; it may quote as much of the file as it likes."""
    words = " ".join(str(error).split())
    return words if len(words) <= MOST_WORDS else f"{words[:MOST_WORDS]}…"


@contextmanager
def opened(path: Path, piped: bool = False) -> Iterator[BinaryIO]:
    """A file to read; unless it may be `piped`, a pipe or device is refused, and not waited for."""
    waiting = 0 if piped else getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, os.O_RDONLY | waiting), "rb") as file:
        if not piped and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Malformed("it is not a regular file")
        yield file


def read_bytes(path: Path, most: int = MOST_BYTES, piped: bool = False) -> bytes:
    """The content of a file of at most so many bytes."""
    with opened(path, piped) as file:
        size = most if piped else os.fstat(file.fileno()).st_size
        content = file.read(size + 1) if size <= most else b""
    if max(size, len(content)) > most:
        raise Malformed(f"it has more than {most:,} bytes")
    return content


def as_text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8 ({error.reason} at byte {error.start:,})") from error


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    return from_json(as_text(read_bytes(path, most)))


def read_lines(path: Path) -> list[str]:
    """The lines of a file of JSON lines."""
    text = as_text(read_bytes(path, 4 * MOST_BYTES))
    if max(text.count("\n"), text.count("[") + text.count("{")) > MOST_NESTED:
        raise Malformed(f"it has more than {MOST_NESTED:,} lines, lists and objects")
    return text.splitlines()


def read_json_lines(path: Path) -> list[Any]:
    """The value in each line."""
    return [from_json(line) for line in read_lines(path)]


def from_json(text: str, most_nested: int = MOST_NESTED) -> Any:
    """The value of a JSON text; raises `Malformed`."""
    nested = text.count("[") + text.count("{")
    if nested > most_nested:
        raise Malformed(f"it has more than {most_nested:,} lists and objects")
    if nested > DEEPEST and _depth(text) > DEEPEST:
        raise Malformed(f"it is nested more than {DEEPEST} deep")
    try:
        return json.loads(text, parse_int=_whole_number)
    except RecursionError as error:
        raise Malformed(f"it is nested more than {DEEPEST} deep") from error
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"it is not valid JSON: {error}") from error


def _depth(text: str) -> int:
    """How deep lists and objects are nested; what is in strings is left out."""
    deep = deepest = 0
    for found in NESTING.finditer(text):
        sign = text[found.start()]
        deep += (sign in "[{") - (sign in "]}")
        deepest = max(deepest, deep)
    return deepest


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS + 1 or not -(2**63) <= (value := int(digits)) < 2**63:
        raise Malformed("a number in it does not fit 64 bits")
    return value
