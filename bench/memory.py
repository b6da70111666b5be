"""The private memory of a FixMatch run on images that are mapped from a file, by the size of the pool.

Private memory is RssAnon of /proc/self/status: what the process itself wrote, without the pages of files, which the
system drops when it needs room. Each figure is from a process of its own: a short training of a small network.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.timing import Row

SMALL, LARGE = 50_000, 1_000_000
LABELLED = 10_000
ROUNDS = 3
PART = 2**14
SHAPE = (32, 32, 3)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="surelabel-memory-") as folder:
        needed = (LARGE + SMALL) * int(np.prod(SHAPE))
        if shutil.disk_usage(folder).free < 2 * needed:
            raise SystemExit(f"the benchmark needs {2 * needed / 2**30:.0f} GiB of room in {folder}: set TMPDIR")
        for images in (SMALL, LARGE):
            _make(Path(folder, f"{images}.npy"), images)
        return _rows(Path(folder), LABELLED, "10,000 labels") + _rows(Path(folder), LARGE, "all labelled")


def _rows(folder: Path, labelled: int, what: str) -> list[Row]:
    found: dict[int, list[tuple[float, float]]] = {SMALL: [], LARGE: []}
    for images in found:
        labels = np.full(images, -1)
        labels[: min(labelled, images)] = np.arange(min(labelled, images)) % 10
        np.save(folder / f"{images}.labels.npy", labels)
    for _ in range(ROUNDS):
        for images, figures in found.items():
            figures.append(_measure(folder / f"{images}.npy"))
    start, _ = (statistics.median(column) for column in zip(*found[SMALL], strict=True))
    peaks = {images: statistics.median(peak for _, peak in figures) for images, figures in found.items()}
    return [
        Row(f"{what}: before the data are opened", start, "MB"),
        *[Row(f"{what}: most, with {images:,} images", peak, "MB") for images, peak in peaks.items()],
        Row(f"{what}: growth from {SMALL:,} to {LARGE:,}", peaks[LARGE] - peaks[SMALL], "MB", "0"),
    ]


def _make(path: Path, images: int) -> None:
    file = np.lib.format.open_memmap(path, "w+", np.uint8, (images, *SHAPE))
    generator = np.random.default_rng(0)
    for start in range(0, images, PART):
        part: NDArray[np.uint8] = file[start : start + PART]
        part[:] = generator.integers(0, 256, part.shape, dtype=np.uint8)
    file.flush()


def _measure(path: Path) -> tuple[float, float]:
    """The private memory of a fresh process, in MB: with all libraries loaded, and the most while it trains."""
    done = subprocess.run([sys.executable, "-m", "bench.memory", str(path)], capture_output=True, text=True, check=True)
    start, most = json.loads(done.stdout.splitlines()[-1])
    return start, most


def private_memory() -> float:
    """RssAnon of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("this system does not tell RssAnon in /proc/self/status")


def watched(call: Callable[[], object]) -> tuple[float, float]:
    """The private memory of this process in MB: before a call, and the most during it."""
    start = most = private_memory()
    finished = threading.Event()

    def watch() -> None:
        nonlocal most
        while not finished.wait(0.005):
            most = max(most, private_memory())

    watching = threading.Thread(target=watch)
    watching.start()
    call()
    finished.set()
    watching.join()
    return start, max(most, private_memory())


def _train(path: Path) -> tuple[float, float]:
    from rich.console import Console

    from surelabel.config.run import Batch, Network, RunConfig
    from surelabel.training.fit import fit

    with tempfile.TemporaryDirectory() as folder:
        made = RunConfig(
            data=str(path), labels=40, steps=20, out=f"{folder}/run", device="cpu", threads=1, batch=Batch(16, 7),
            network=Network("wrn-10-1", stem_stride=2),
        )  # fmt: skip
        return watched(lambda: fit(made, console=Console(quiet=True)))


if __name__ == "__main__":
    print(json.dumps(_train(Path(sys.argv[1]))))
