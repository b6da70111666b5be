"""What a command says beside what it writes, and how it ends where nobody listens any more."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from surelabel.utils.files import STDERR, STDOUT, is_stdout
from surelabel.utils.words import printable

CLOSED = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1  # as shells report a program that it ended
FAILED = 2

Answer = TypeVar("Answer")


def say(text: str, out: str | Path | None = None) -> None:
    """Print a message; beside an output `out` that goes to the standard output, to the standard error."""
    print(printable(text), file=sys.stderr if out is not None and is_stdout(out) else sys.stdout, flush=True)


class Unheard(Exception):
    """The standard output or error cannot be written: its reader has gone, or the disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.exit_code = CLOSED if isinstance(error, BrokenPipeError) else FAILED


class Stream:
    """A standard stream whose failure is `Unheard`, which nobody takes for that of another file."""

    def __init__(self, stream: Any) -> None:
        # Closed from the start, its number would be given to the next file that is opened.
        self._stream = Path(os.devnull).open("w") if stream is None else stream  # noqa: SIM115
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what the encoding lacks becomes \\u2026

    def write(self, text: str) -> Any:
        return _heard(lambda: self._stream.write(text))

    def flush(self) -> None:
        _heard(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _heard(act: Callable[[], Answer]) -> Answer:
    try:
        return act()
    except OSError as error:
        raise Unheard(error) from error


@contextmanager
def heard() -> Iterator[None]:
    """Everything said in this block is written at its end, or that raises `Unheard`."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Stream(before[0]), Stream(before[1])
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = before


def end_unheard(unheard: Unheard) -> int:
    """Say so if there is still somebody to hear it, and return the exit code."""
    if unheard.exit_code != CLOSED:
        with suppress(OSError):
            print(f"surelabel: cannot write the standard output: {unheard}", file=sys.stderr, flush=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (STDOUT, STDERR):  # what is left in their buffers would fail once more when Python ends
        os.dup2(nowhere, number)
    os.close(nowhere)
    return unheard.exit_code
