"""Write files so that a kill or a full disk never leaves half a file behind."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from surelabel.utils.errors import UserError

STDOUT, STDERR = 1, 2  # as every process has them, whatever sys.stdout is


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Write to a temporary file beside `path`, which replaces `path` if no error occurs.

    A link stays, and the file that it leads to is replaced. What is no file, such as a terminal or a pipe, is written
    to as it is. An `OSError` (a full disk, a read-only folder) becomes a `UserError`, and leaves an existing file at
    `path` unchanged; only the end of a pipe's reader stays what it is, so that the command ends in silence.
    """
    text = "b" not in mode
    form: dict[str, Any] = {"mode": mode, "encoding": "utf-8" if text else None, "newline": "" if text else None}
    temporary: str | None = None
    try:
        if (stream := _stream(Path(path))) is not None:
            with os.fdopen(stream, **form) as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, **form) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        Path(temporary).replace(target)
        temporary = None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _stream(path: Path) -> int | None:
    """A descriptor to write to what is no file, or is open as standard output or error; None for a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    for number in (STDOUT, STDERR):
        if _is_open_as(number, found):
            sys.stdout.flush()
            return os.dup(number)  # opened anew, a file would be written from its beginning again
    if stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode):
        return os.open(path, os.O_WRONLY)
    if not stat.S_ISREG(found.st_mode):
        what = {stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(found.st_mode), "a disk")
        raise UserError(f"cannot write {path}: it is {what}. Give the name of a file")
    return None


def is_stdout(path: str | Path) -> bool:
    """Whether this is what the process writes its standard output to."""
    try:
        return _is_open_as(STDOUT, Path(path).stat())
    except OSError:
        return False


def _is_open_as(number: int, found: os.stat_result) -> bool:
    with suppress(OSError):  # it may be closed
        return os.path.samestat(found, os.fstat(number))
    return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
