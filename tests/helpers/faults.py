"""Processes that are killed, and what a run folder must be like whenever they are."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Protocol

from safetensors.torch import load

from surelabel.config.settings import read_run
from surelabel.training.checkpoints import read_checkpoint

# Equal in a run that was interrupted and in one that was not.
FILES = ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json")
Moment = Callable[[Path], bool]  # whether it has come, for the run in this folder


class Process(Protocol):
    """As much of `subprocess.Popen` as is needed to kill one."""

    def poll(self) -> int | None: ...
    def send_signal(self, sig: int, /) -> None: ...
    def wait(self) -> int: ...


def kill(process: Process, now: Callable[[], bool], number: int = signal.SIGKILL) -> bool:
    """Send the signal as soon as `now` says so; False where the process ended before."""
    while process.poll() is None:
        if now():
            process.send_signal(number)
            process.wait()
            return True
        time.sleep(0.0005)
    return False


def moments(seconds: float, chance: Random) -> Iterator[Moment]:
    """When to kill a run: at any moment, and, by turns, in the middle of writing one of its checkpoints."""
    while True:
        yield after(chance.uniform(0, seconds))
        yield writing(chance.randrange(12))


def after(seconds: float) -> Moment:
    """Says when so many seconds have passed."""
    moment = time.monotonic() + seconds
    return lambda folder: time.monotonic() > moment


def writing(left: int) -> Moment:
    """Says when so many checkpoints have been begun, and one more."""
    seen: set[Path] = set()

    def now(folder: Path) -> bool:
        seen.update(folder.glob(".checkpoint.pt.*"))
        return len(seen) > left

    return now


def equal(folder: Path, other: Path) -> bool:
    """Whether two runs have ended with the same bytes."""
    names = [name for name in FILES if (other / name).exists()]
    return all(
        (folder / name).exists() and (folder / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def half_written(folder: Path) -> list[str]:
    """The files of a run folder that cannot be read; a folder has all that is known before the first step, or is none.

    Only timings.jsonl, of which nothing depends, may end in half a line.
    """
    if not folder.exists():
        return []
    readers: dict[str, Callable[[Path], object]] = {
        "config.yaml": lambda path: read_run(path.parent), ".json": _read_json, ".jsonl": _read_lines,
        ".safetensors": lambda path: load(path.read_bytes()), ".pt": read_checkpoint,
    }  # fmt: skip
    found = [name for name in ("config.yaml", "task.json", "split.json") if not (folder / name).exists()]
    for path in sorted(folder.iterdir()):
        read = readers.get(path.name) or readers.get(path.suffix)
        if read is None or path.name.startswith(".") or path.name == "timings.jsonl":
            continue
        try:
            read(path)
        except Exception as error:
            found.append(f"{path.name} ({error!r})")
    return found


def _read_json(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_lines(path: Path) -> object:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
