"""Tar shards, for sets that are larger than the memory: images read by index and decoded while the network trains."""

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import user_data_set
from surelabel.data.images.common_size import common_size
from surelabel.data.images.decode import decode
from surelabel.data.images.formats import SUFFIXES
from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.data.outputs import holds_outputs_only
from surelabel.data.shards.index import ShardIndex, read_index
from surelabel.data.shards.tar import read_members
from surelabel.data.source import DataSet, Source
from surelabel.utils import cpu as cores
from surelabel.utils.errors import UserError
from surelabel.utils.words import printable

# What the name of a test shard begins with.
TEST = ("test", "val")
UNFINISHED = ".unfinished.json"
# Neighbours read at about the same time: few enough that shards sorted by class still mix, enough for read-ahead.
BLOCK = 32
GROUP = 8
MOST_AHEAD = 4
MOST_WORKERS = 32
# Images whose pixels turn out to be damaged: these few, or one in so many, are passed over; more end the run.
FEW_DAMAGED, DAMAGED_IN = 10, 1000
PART = 2**16


class _Pending(NamedTuple):
    images: NDArray[np.uint8]
    work: list[Future[None]]


class ShardSource(Source):
    """Images of tar shards by index. `prefetch` begins to decode those that are asked for next, in threads."""

    block_size = BLOCK

    def __init__(
        self, folder: Path, index: ShardIndex, part: str, shape: tuple[int, int, int], scaling: Scaling = PLAIN
    ) -> None:
        before = 0 if part == "train" else index.head.counts["train"]
        self._rows = index.rows[:, before : before + index.head.counts[part]]
        self._files = [(folder / name, size, date) for name, size, date in index.head.files]
        self.classes = tuple(index.head.classes)
        self.labels = self._rows[3]
        self.shape: tuple[int, int, int] = shape
        self.scaling = scaling
        self._pending: dict[bytes, _Pending] = {}
        self._stand_ins: dict[int, int] = {}
        self.notes = tuple(index.head.notes)
        self.skipped = tuple((name, reason) for name, reason in index.head.skipped[part])

    def __len__(self) -> int:
        return len(self._rows[0])

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.uint8]:
        pending = self._pending.pop(index.tobytes(), None) or self._begin(index)
        for work in pending.work:
            work.result()
        return pending.images

    def prefetch(self, index: NDArray[np.int64]) -> None:
        """Begin to read and decode these images; `images` with the same indices will wait for what is left to do."""
        key = index.tobytes()
        if key not in self._pending:
            self._pending[key] = self._begin(index)
        while len(self._pending) > MOST_AHEAD:
            for work in self._pending.pop(next(iter(self._pending))).work:
                work.cancel()

    def _begin(self, index: NDArray[np.int64]) -> _Pending:
        images = np.empty((len(index), *self.shape), dtype=np.uint8)

        def fill(start: int, end: int) -> None:
            for row in range(start, end):
                images[row] = self._image(int(index[row]))

        size = max(1, min(GROUP, -(-len(index) // _workers())))
        starts = range(0, len(index), size)
        return _Pending(images, [self._pool.submit(fill, start, min(start + size, len(index))) for start in starts])

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_workers(), "shards")

    def _image(self, number: int) -> NDArray[np.uint8]:
        """The pixels of a sample; where they are damaged, those of the next sample of its class, with a warning."""
        channels, height, width = self.shape
        while True:
            chosen = self._stand_ins.get(number, number)
            content = self._content(chosen)
            try:
                return decode(BytesIO(content), height, width, channels == 1, self.scaling)
            except MemoryError:
                raise
            except Exception as error:  # damaged or hostile pixels make Pillow raise nearly anything
                self._pass_over(number, chosen, error)

    def _content(self, number: int) -> bytes:
        shard, offset, size, _ = self._rows[:, number].tolist()
        path, whole, date = self._files[shard]
        content: bytes
        try:
            with path.open("rb") as file:
                now = os.fstat(file.fileno())
                file.seek(offset)
                content = file.read(size)
        except OSError as error:
            raise UserError(f"{path} cannot be read any more: {error.strerror or error}") from error
        if (now.st_size, now.st_mtime_ns) != (whole, date) or len(content) != size:
            raise UserError(f"{path} was changed since the run began: shards must stay as they are while they are used")
        return content

    def _pass_over(self, number: int, chosen: int, error: Exception) -> None:
        """Let the next sample of the same class stand in for one that cannot be decoded."""
        told = f"{self._where(chosen)} cannot be decoded ({error})"
        other = self._next_of_class(chosen)
        self._stand_ins[number] = other
        if other == number or len(self._stand_ins) > max(FEW_DAMAGED, len(self) // DAMAGED_IN):
            others = "any other of its class" if other == number else f"{len(self._stand_ins) - 1} others"
            raise UserError(
                f"{told}, nor can {others}: fetch the shards again, or make them by `surelabel data make-shards`, "
                "which leaves out such images"
            )
        warnings.warn(printable(f"{told}: another image of the same class stands in for it"), stacklevel=2)

    def _next_of_class(self, number: int) -> int:
        """The next sample with the same label, going round the end."""
        for start, end in ((number + 1, len(self)), (0, number + 1)):
            for first in range(start, end, PART):
                same = self.labels[first : min(first + PART, end)] == self.labels[number]
                if same.any():
                    return first + int(np.argmax(same))
        raise AssertionError("a sample has the label of itself")

    def files(self) -> Iterator[str]:
        """The member that each sample is, in order; read from the shards, whose index keeps no names."""
        shards, starts = np.unique(self._rows[0], return_index=True)
        for shard, offsets in zip(shards.tolist(), np.split(self._rows[1], starts[1:]), strict=True):
            at = {member.offset: member.name for member in read_members(self._files[shard][0])}
            yield from (at[offset] for offset in offsets.tolist())

    def _where(self, number: int) -> str:
        shard, offset = self._rows[:2, number].tolist()
        path = self._files[shard][0]
        names = (member.name for member in read_members(path) if member.offset == offset)
        return f"{path}, {next(names, f'byte {offset}')}"

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which has threads of its own."""
        return {name: value for name, value in vars(self).items() if name not in ("_pool", "labels")} | {"_pending": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.labels = self._rows[3]


def _workers() -> int:
    return min(MOST_WORKERS, cores.available_cores())


def are_in(folder: Path) -> bool:
    """Whether a folder holds tar shards: archives, and no images, tables or folders beside them."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:  # which whoever reads it as a folder of images will tell of
        return False
    images = (
        entry.suffix.lower() in SUFFIXES
        or entry.name == "labels.csv"
        or (entry.is_dir() and not holds_outputs_only(entry))
        for entry in entries
    )
    return any(entry.suffix == ".tar" for entry in entries) and not any(images)


def load(
    folder: str | Path, size: int | None = None, shape: tuple[int, int, int] | None = None, scaling: Scaling = PLAIN
) -> DataSet:
    """A data set out of a folder of tar shards; `docs/data.md` describes what they hold.

    Images become size × size, or of this (channels, height, width); without both they take the size that at least half
    of them have, made smaller to at most 256 a side, else 32 × 32.
    """
    folder = Path(folder)
    if (folder / UNFINISHED).exists():
        raise UserError(f"the shards in {folder} are incomplete: run the same `surelabel data make-shards` again")
    parts = find_parts(folder)
    index = read_index(folder, parts)
    head = index.head
    if shape is None:
        shape = (1 if head.grey else 3, *common_size(head.height, head.width, head.alike, len(index.rows[0]), size))
    sources = {part: ShardSource(folder, index, part, shape, scaling) for part in parts}
    return user_data_set(folder.resolve().name, sources["train"], sources.get("test"))


def find_parts(folder: Path) -> dict[str, list[Path]]:
    """The shards of train and, if there are any, of test, sorted by name."""
    shards = sorted(path for path in folder.iterdir() if path.suffix == ".tar" and not path.name.startswith("."))
    if packed := [path.name for path in folder.iterdir() if path.name.endswith((".tar.gz", ".tgz", ".tar.zst"))]:
        raise UserError(f"{folder}: {min(packed)} is compressed, and so cannot be read by index: unpack it to .tar")
    begins = {part: [path for path in shards if path.name.startswith(part)] for part in ("train", *TEST)}
    if not any(begins.values()):
        return {"train": shards}
    others = [path.name for path in shards if not path.name.startswith(tuple(begins))]
    tests = [part for part in TEST if begins[part]]
    if others or len(tests) > 1 or not begins["train"]:
        raise UserError(
            f"{folder} must hold train-*.tar and, for the test set, test-*.tar or val-*.tar, not both; or shards that "
            f"begin with neither, all for training. It has {', '.join((others or [path.name for path in shards])[:3])}"
        )
    parts = {"train": begins["train"]}
    return parts | {"test": begins[tests[0]]} if tests else parts
