"""Write an image folder as shuffled tar shards, checking that every image decodes."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from surelabel.data.images.decode import decode, read_header
from surelabel.data.images.layout import FolderLayout, check_known_classes, read_layout
from surelabel.data.images.limits import check_size
from surelabel.data.images.map_files import map_files
from surelabel.data.shards.index import CLASSES, read_index
from surelabel.data.shards.source import UNFINISHED, find_parts
from surelabel.data.source import FilesSkipped
from surelabel.utils.bounded import read_json
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.rng import generator

BLOCK = 512
# At most this many files, or about this many bytes, are in memory at once.
HELD_FILES, HELD_BYTES = 100, 2**26
GROUP = 4  # files per task of a thread

MOST_UNFINISHED = 2**28  # bytes of the list of skipped files
Skipped = dict[str, dict[str, str]]  # per shard: skipped file, reason


@dataclass(frozen=True)
class Shard:
    """A shard to write."""

    name: str
    files: list[str]
    first: int  # number of the first file within the split


def make_shards(
    folder: Path, out: Path, size_mb: int, seed: int, progress: Callable[[int, int], None]
) -> tuple[dict[str, int], FilesSkipped]:
    """Write the images of a folder, shuffled, into shards of about this size (see `docs/data.md`).

    Shards are written atomically, and the same call resumes after an interruption. `progress` gets
    (files done, files in total). Returns the images per split, and the skipped files with reasons.
    """
    if out.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{out} is inside {folder}, the folder of the images: choose another folder for the shards")
    layout = read_layout(folder)
    check_known_classes(layout, layout.classes)
    plan = list(_plan(folder, layout, size_mb, seed))
    digest = _digest(folder, plan, layout)
    skipped = _begun(out, digest)
    total = sum(len(shard.files) for shard in plan)
    ready = 0
    _record(out, digest, skipped)
    with atomic_write(out / CLASSES) as file:
        json.dump(list(layout.classes), file)
    for shard in plan:
        if shard.name not in skipped:
            skipped[shard.name] = _write_shard(folder, out, shard, layout)
            _record(out, digest, skipped)
        ready += len(shard.files)
        progress(ready, total)
    left_out = {name: why for of_shard in skipped.values() for name, why in of_shard.items()}
    counts = read_index(out, find_parts(out)).head.counts
    if sum(counts.values()) + len(left_out) != total:
        raise UserError(f"{out} has {sum(counts.values())} of {total - len(left_out)} images: remove it and try again")
    (out / UNFINISHED).unlink()
    return counts, tuple(sorted(left_out.items()))


def _plan(folder: Path, layout: FolderLayout, size_mb: int, seed: int) -> Iterator[Shard]:
    for part, files in layout.parts.items():
        order = [files[index] for index in generator(seed, f"shards of {part}").permutation(len(files))]
        number, first, size = 0, 0, 0
        for place, file in enumerate(order):
            # The image and its class, each with a header, padded to blocks.
            size += -(-_state(folder / file)[0] // BLOCK) * BLOCK + 3 * BLOCK
            if size >= size_mb * 2**20 or place + 1 == len(order):
                yield Shard(f"{part}-{number:06}.tar", order[first : place + 1], first)
                number, first, size = number + 1, place + 1, 0


def _digest(folder: Path, plan: list[Shard], layout: FolderLayout) -> str:
    """A hash of everything that the shards depend on."""
    digest = blake2b(digest_size=16)
    for shard in plan:
        for file in shard.files:
            digest.update(json.dumps([shard.name, file, layout.class_of.get(file), *_state(folder / file)]).encode())
    return digest.hexdigest()


def _state(path: Path) -> tuple[int, int]:
    """The size and date of a file; zeros for a broken link, which is skipped later."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _begun(out: Path, plan: str) -> Skipped:
    """What an interrupted call has finished: the skipped files of each shard."""
    if not (out / UNFINISHED).exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError(f"{out} exists already: choose another folder for the shards, or remove it")
        return {}
    for temporary in out.glob(".*.tar.*"):  # of a killed call
        temporary.unlink()
    try:
        done = read_json(out / UNFINISHED, MOST_UNFINISHED)
        same = done["plan"] == plan
        shards = {str(name): {str(file): str(why) for file, why in of.items()} for name, of in done["skipped"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {out / UNFINISHED} ({error!r}): remove {out} and start again") from error
    if not same:
        raise UserError(f"{out} has unfinished shards of other images or another size: choose another folder")
    return {name: of for name, of in shards.items() if (out / name).exists()}


def _record(out: Path, plan: str, skipped: Skipped) -> None:
    with atomic_write(out / UNFINISHED) as file:
        json.dump({"plan": plan, "skipped": skipped}, file)


def _write_shard(folder: Path, out: Path, shard: Shard, layout: FolderLayout) -> dict[str, str]:
    numbers = {name: number for number, name in enumerate(layout.classes)}
    keys = {name: key for key, name in enumerate(shard.files, shard.first)}
    skipped: dict[str, str] = {}
    with (
        atomic_write(out / shard.name, "wb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for files in _few(folder, shard.files):
            contents, left_out = map_files(lambda _, path: _decodable(path), folder, files, group=GROUP)
            skipped |= left_out
            for name, content in contents.items():
                _add(tar, f"{keys[name]:09}{PurePosixPath(name).suffix.lower()}", content)
                if name in layout.class_of:
                    _add(tar, f"{keys[name]:09}.cls", str(numbers[layout.class_of[name]]).encode())
    return skipped


def _few(folder: Path, files: list[str]) -> Iterator[list[str]]:
    """The files in order, in groups that fit in memory."""
    few: list[str] = []
    size = 0
    for file in files:
        few.append(file)
        size += _state(folder / file)[0]
        if len(few) == HELD_FILES or size >= HELD_BYTES:
            yield few
            few, size = [], 0
    if few:
        yield few


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _decodable(path: Path) -> bytes:
    """The content of an image file. Raises if its pixels cannot be decoded."""
    check_size(path.stat().st_size)
    content = path.read_bytes()
    header = read_header(io.BytesIO(content))
    decode(io.BytesIO(content), header.height, header.width, header.grey)
    return content
