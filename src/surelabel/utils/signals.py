"""Ctrl-C and SIGTERM: finish the step, save, and exit."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopped(Exception):
    """The run was stopped by a signal, and is saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as shells report a program that a signal ended


@contextmanager
def stopping() -> Iterator[None]:
    """Let the first SIGTERM raise SystemExit, as Ctrl-C raises KeyboardInterrupt.

    Neither is an `Exception`, so no handler takes it for an error of what it interrupts.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a scheduler and a parent process may both send one
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class StopRequest:
    """A context in which the first signal only sets `requested`; a second Ctrl-C interrupts.

    An interrupt in the middle of an update would leave a state that no other run ever has.
    """

    def __init__(self) -> None:
        self.requested = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not the main thread, which alone gets signals
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = number

    def end(self, requested: int = 0) -> None:
        """Raise `Stopped` if a signal came, here or (`requested`) in another process."""
        if requested or self.requested:
            raise Stopped(requested or self.requested)
