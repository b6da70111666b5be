"""`python -m bench.soak [--minutes 30] [--seed 0]`: random commands, random faults, and what must hold all the same.

Runs on small random data are begun, resumed and read by processes that are stopped (SIGINT, SIGTERM), killed (at any
moment, or in the middle of writing a checkpoint), or have too little disk or memory. After each command:

- its exit code is one that README.md promises for what happened to it;
- no file of a run folder is half written, and nothing is left of one once the run has ended;
- a run that has ended equals, byte for byte, one that nobody disturbed, and never changes again;
- what a command was to write is there as a whole, or not at all.

It prints a summary, and ends with 1 if any of it did not hold. A full disk needs root, for a small file system in
memory; without, a limit on the size of files stands for it. Linux only.
"""

import argparse
import faulthandler
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from surelabel.cli.main import main as surelabel
from tests.helpers.faults import Moment, after, equal, half_written, kill, writing

ROOM = 2**26  # bytes of the small file system when it is not full
ENOUGH = 1200.0  # seconds after which a command hangs
FAULTS = ("none", "SIGINT", "SIGTERM", "SIGKILL", "SIGKILL while saving", "disk", "memory")
STEPS = 24
RUNS = {
    "sure": ("table.csv", "--label-column", "kind", "--network.name", "members-20-4"),
    "bam-uda+ema": (
        "images.npz", "--encoder", "none", "--network.name", "mlp-1-8", "--head.samples", "5", "--batch.labelled", "4",
        "--batch.ratio", "2", "--views.weak", "none", "--views.strong", "none", "--labels", "10",
    ),
    "fixmatch": (
        "images.npz", "--encoder", "none", "--network.name", "wrn-10-1", "--batch.labelled", "4", "--batch.ratio", "2",
        "--labels", "10",
    ),
    "bam-paws+swa": (
        "images.npz", "--encoder", "none", "--network.name", "wrn-10-1", "--paws.unlabelled", "4", "--paws.width", "8",
        "--paws.per_class", "2", "--paws.small_crops", "0", "--labels", "10",
    ),
}  # fmt: skip


class Child:
    """A command in a process of its own, which has imported everything already."""

    def __init__(self, words: list[str], log: Path, limit: Callable[[], None]) -> None:
        self.code: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            code = 128 + signal.SIGINT  # where the signal comes before anything else
            try:
                code = _command(words, log, limit)
            finally:  # whatever comes, what the parent would clean up is not this process's
                os._exit(code)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def send_signal(self, sig: int) -> None:
        os.kill(self.pid, sig)

    def wait(self) -> int:
        begun = time.monotonic()
        while self.poll() is None:
            if time.monotonic() - begun > ENOUGH:
                self.send_signal(signal.SIGUSR1)  # says in the log where it hangs
                time.sleep(1)
                self.send_signal(signal.SIGKILL)
            time.sleep(0.001)
        assert self.code is not None
        return self.code


def _command(words: list[str], log: Path, limit: Callable[[], None]) -> int:
    """Run `surelabel WORDS` as the command line does; its output goes to `log`."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.register(signal.SIGUSR1)
    try:
        limit()
        code = surelabel(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except KeyboardInterrupt:  # before or after the command's own handling
        code = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(OSError):
        sys.stdout.flush()
    return code


@dataclass
class Run:
    """A run under attack."""

    name: str  # of its method
    folder: Path
    whole: Path  # the folder of the same run, undisturbed
    files: dict[str, bytes] | None = None  # once it has ended

    @property
    def begin(self) -> list[str]:
        return fit_words(self.name, self.whole.parent, self.folder)


def fit_words(name: str, root: Path, out: Path) -> list[str]:
    data, *options = RUNS[name]
    every = ["--evaluation.every", "6", "--steps", str(STEPS), "--threads", "1", "--device", "cpu", "--out", str(out)]
    return ["fit", str(root / data), "--method", name, *options, *every, "--resume", "auto"]


@dataclass
class Soak:
    """The state of the world, and what was found."""

    root: Path
    chance: random.Random
    small: bool  # whether there is a small file system
    wholes: dict[str, Path] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # that a command takes undisturbed
    outputs: dict[str, bytes] = field(default_factory=dict)  # what reading commands wrote first, by run and command
    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)

    def command(self, words: list[str], fault: str, run: Run | None = None, full: int = ROOM) -> int:
        """Run it with this fault; the exit code as a shell has it."""
        self.counts[f"{words[0]} commands"] += 1
        moment = self._moment(words[0], fault)
        if self.small:
            _resize(self.root / "small", full)
        begun = time.monotonic()
        child = Child(words, self.root / "log", lambda: _limit(fault, full, self.small, self.chance))
        number = getattr(signal, fault.split(maxsplit=1)[0], signal.SIGKILL)
        if moment is not None and kill(child, lambda: moment(run.folder if run else self.root), number):
            self.counts[fault] += 1
        code = child.wait()
        if fault in ("disk", "memory") and code:
            self.counts[fault] += 1
        if fault == "none" and code == 0:
            self.seconds[words[0]] = time.monotonic() - begun
        code = code if code >= 0 else 128 - code
        if code not in _codes(fault):
            self.fail(f"{fault}: exit code {code} of {' '.join(words)}\n{(self.root / 'log').read_text()[-2000:]}")
        if self.small:
            _resize(self.root / "small", ROOM)
        return code

    def _moment(self, command: str, fault: str) -> Moment | None:
        if fault == "SIGKILL while saving" and command == "fit":
            return writing(self.chance.randrange(5))
        return after(self.chance.uniform(0, self.seconds.get(command, 3.0))) if fault.startswith("SIG") else None

    def fail(self, words: str) -> None:
        self.lost.append(words)
        print(f"LOST: {words}", flush=True)

    def check(self) -> None:
        """What must hold after every command."""
        for run in self.runs:
            for name in half_written(run.folder):
                self.fail(f"{run.folder}: {name} is half written or missing")
            if run.files is not None and contents(run.folder) != run.files:
                self.fail(f"{run.folder} has ended, and has changed")

    def train(self) -> None:
        """Begin a run, or resume one."""
        fault = self.chance.choice(FAULTS)
        open_runs = [
            run for run in self.runs if run.files is None and (fault != "disk" or run.folder.parent.name == "small")
        ]
        if not open_runs or (len(open_runs) < 4 and self.chance.random() < 0.5):
            name = self.chance.choice(sorted(RUNS))
            open_runs = [Run(name, self._place(fault) / f"run-{len(self.runs)}", self.wholes[name])]
            self.runs += open_runs
        run = self.chance.choice(open_runs)
        if self.command(run.begin, fault, run, self._room(fault)) != 0:
            return
        self.counts["runs ended"] += 1
        if not equal(run.folder, run.whole):
            self.fail(f"{run.folder} differs from {run.whole}")
        if left := [path.name for path in run.folder.glob(".*") if path.name != ".lock"]:
            self.fail(f"{run.folder} has ended, and {', '.join(left)} is left of what was half written")
        run.files = contents(run.folder)

    def read(self) -> None:
        """A command that reads a run, ended or not, and writes a file elsewhere."""
        run, fault = self.chance.choice(self.runs), self.chance.choice(FAULTS)
        out = self._place(fault) / "out"
        data, option = self.root / RUNS[run.name][0], str(out)
        words = self.chance.choice([
            ["evaluate", str(run.folder)], ["predict", str(run.folder), str(data), "-o", option],
            ["suggest", str(run.folder), "-n", "3", "-o", option], ["report", str(run.folder), "-o", option],
        ])  # fmt: skip
        code = self.command(words, fault, run, self._room(fault))
        if code == 2 and fault == "none" and run.files is not None and words[0] not in ("evaluate", "suggest"):
            self.fail(f"{' '.join(words)}: {(self.root / 'log').read_text()}")
        if out.exists() and words[0] == "predict" and run.files is not None:
            if code == 0:
                self.outputs.setdefault(str(run.folder), out.read_bytes())
            if out.read_bytes() != self.outputs.get(str(run.folder), out.read_bytes()):
                self.fail(f"{' '.join(words)} wrote something else than before, or half of it")
        if code == 0 and words[0] != "evaluate" and not out.exists():
            self.fail(f"{' '.join(words)} wrote nothing")
        out.unlink(missing_ok=True)
        for half in out.parent.glob(".out.*"):  # of a killed command
            self.counts["half files of killed commands"] += 1
            half.unlink()

    def refused(self) -> None:
        """A run is not written over by another."""
        run = self.chance.choice(self.runs)
        before = contents(run.folder) if run.folder.exists() else {}
        if not before:
            return
        if self.command(run.begin[:-2], "none", run) != 2 or contents(run.folder) != before:
            self.fail(f"{run.folder} was begun a second time")

    def _place(self, fault: str) -> Path:
        """Where something is written: with a full disk, on it."""
        return self.root / ("small" if fault == "disk" or self.chance.random() < 0.5 else "large")

    def _room(self, fault: str) -> int:
        """The size of the small file system: with a full disk, hardly more than is taken."""
        taken = _size(self.root / "small") if self.small else 0
        return taken + self.chance.randrange(2 ** self.chance.randrange(10, 18)) if fault == "disk" else ROOM


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run folder but the lock."""
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock" and path.is_file()
    }


def _codes(fault: str) -> set[int]:
    """The exit codes that may follow: the command may have ended before, and bad input is 2."""
    after_signal = {"SIGINT": {130}, "SIGTERM": {143}, "SIGKILL": {137}, "SIGKILL while saving": {137}}
    return {0, 2} | after_signal.get(fault, set()) | ({1} if fault == "memory" else set())


def _limit(fault: str, full: int, small: bool, chance: random.Random) -> None:
    """In the child: too little memory, or too small files where no file system is."""
    if fault == "memory":
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = taken + chance.randrange(2**27)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if fault == "disk" and not small:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (full % 2**17, full % 2**17))


def _resize(folder: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def _size(folder: Path) -> int:
    """The bytes that are taken in a file system."""
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def write_data(root: Path, rng: np.random.Generator) -> None:
    """A table with unlabelled rows, and images with a test set."""
    labels = np.arange(80) % 2
    rows = [
        f"{('cat', 'dog')[y] if i < 24 else ''},{rng.normal() + 2 * y:.3f},{'xy'[i % 3 // 2]}"
        for i, y in enumerate(labels)
    ]
    (root / "table.csv").write_text("\n".join(["kind,a,b", *rows]) + "\n")
    images = (rng.normal(120, 20, (80, 1, 8, 8)) + 30 * labels[:, None, None, None]).clip(0, 255).astype(np.uint8)
    np.savez(
        root / "images.npz", images=images[:60], labels=labels[:60], test_images=images[60:], test_labels=labels[60:]
    )


def mounted(folder: Path) -> bool:
    """Whether a small file system could be mounted there."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    try:
        return subprocess.run(mount, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def soak(root: Path, minutes: float, seed: int) -> Soak:
    torch.set_num_threads(1)
    os.environ["SURELABEL_CACHE"] = str(root / "cache")
    write_data(root, np.random.default_rng(seed))
    (root / "large").mkdir()
    world = Soak(root, random.Random(seed), mounted(root / "small"))
    end = time.monotonic() + 60 * minutes
    try:
        for name in RUNS:
            world.wholes[name] = root / f"whole-{name}"
            if world.command(fit_words(name, root, world.wholes[name]), "none") != 0:
                raise SystemExit(f"{name} cannot be trained at all:\n{(root / 'log').read_text()}")
        while time.monotonic() < end:
            world.train()
            world.check()
            for action in world.chance.sample([world.read, world.read, world.refused], 2):
                action()
                world.check()
    finally:
        if world.small:
            subprocess.run(["umount", str(root / "small")], check=True)
    return world


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=str(__doc__).partition(": ")[2])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="surelabel-soak-"))
    world = soak(root, options.minutes, options.seed)
    print("\n".join(f"| {what} | {count} |" for what, count in sorted(world.counts.items())))
    print(f"{len(world.lost)} losses" + (f", see {root}" if world.lost else ": nothing was lost"))
    if not world.lost:
        shutil.rmtree(root)
    return 1 if world.lost else 0


if __name__ == "__main__":
    sys.exit(main())
