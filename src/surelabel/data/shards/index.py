"""The index of a folder of tar shards: the shard, offset, size and class of each sample.

It is stored beside the shards or, if their folder is read-only, in the cache, and mapped into
memory. It is rebuilt when the name, size or date of a shard has changed.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.class_names import Names, class_name, class_names
from surelabel.data.images.limits import most_bytes, most_pixels
from surelabel.data.labels import MOST_UNNAMED_CLASSES
from surelabel.data.shards.samples import ShardSamples, read_samples
from surelabel.data.source import UNLABELLED
from surelabel.utils import cache
from surelabel.utils import cpu as cores
from surelabel.utils.bounded import Malformed, read_json
from surelabel.utils.errors import UserError

NAME = ".surelabel-index"
VERSION = 4  # increase it when `read_samples` changes
COLUMNS = 4  # shard, offset, size, class
CLASSES = "classes.json"


@dataclass(frozen=True)
class Head:
    """All of an index but its rows."""

    files: list[list[Any]]  # name, size and date of each shard and of classes.json
    classes: list[str]
    counts: dict[str, int]  # samples per split; the rows of train come first
    height: int  # of the most frequent size
    width: int
    alike: int  # number of images of that size
    grey: bool  # whether all images are
    skipped: dict[str, list[list[str]]]  # per split: member, reason
    notes: list[str]  # about the names of the classes


@dataclass(frozen=True)
class ShardIndex:
    """The head, and the rows [4, N] mapped from the file: shard, offset, size, class."""

    head: Head
    rows: NDArray[np.int64]


def read_index(folder: Path, parts: dict[str, list[Path]]) -> ShardIndex:
    """The index of these shards by split, built and stored first if there is no valid one."""
    files = _files(folder, parts)
    places = [folder / NAME]
    if (root := cache.writable_cache()) is not None:
        places.append(root / "shards" / f"{cache.content_key([str(folder.resolve())])}.index")
    for place in places:
        if (found := _stored(place, files, set(parts))) is not None:
            return found
    head, rows = _build(folder, parts, files)
    for place in places:
        try:
            cache.store(place, rows, version=VERSION, limits=_limits(), **asdict(head))
        except UserError:
            if place == places[-1]:
                raise
            continue
        if (found := _stored(place, files, set(parts))) is not None:
            return found
    raise UserError(f"the shards in {folder} changed while they were read: wait until they are complete")


def _files(folder: Path, parts: dict[str, list[Path]]) -> list[list[Any]]:
    shards = [path for paths in parts.values() for path in paths]
    named = [*shards, folder / CLASSES] if (folder / CLASSES).exists() else shards
    try:
        return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in named]
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from error


def _limits() -> list[int]:
    """Of images; others may be skipped with other ones."""
    return [most_pixels(), most_bytes()]


def _stored(path: Path, files: list[list[Any]], parts: set[str]) -> ShardIndex | None:
    """The index in this file, if it is undamaged, plausible, and made from these files."""
    found = cache.fetch(path, np.int64, version=VERSION, files=files, limits=_limits())
    if found is None:
        return None
    try:
        head = Head(**{key: value for key, value in found.info.items() if key not in ("version", "limits")})
        rows = np.asarray(found.array)  # quicker to index than np.memmap
        return ShardIndex(head, rows) if _sound(head, rows, parts) else None
    except (ValueError, TypeError, AttributeError):
        return None


def _sound(head: Head, rows: NDArray[np.int64], parts: set[str]) -> bool:
    """Whether all values are possible: the file may come from somebody else, with the shards."""
    least, most = rows.min(axis=1).tolist(), rows.max(axis=1).tolist()
    ranges = [len(head.files) - 1, max(size for _, size, _ in head.files), most_bytes(), len(head.classes) - 1]
    pairs = [pair for listed in head.skipped.values() for pair in listed]
    texts = [*head.classes, *head.notes, *(text for name, why in pairs for text in (name, why))]
    numbers = (head.height, head.width, head.alike, *head.counts.values())
    return (
        head.counts.keys() == head.skipped.keys() == parts
        and rows.shape == (COLUMNS, sum(head.counts.values()))
        and all(low >= floor for low, floor in zip(least, (0, 0, 1, UNLABELLED), strict=True))
        and all(high <= limit for high, limit in zip(most, ranges, strict=True))
        and all(isinstance(text, str) for text in texts)
        and all(type(number) is int and number > 0 for number in numbers)
    )


def _build(folder: Path, parts: dict[str, list[Path]], files: list[list[Any]]) -> tuple[Head, NDArray[np.int64]]:
    shards = [path for paths in parts.values() for path in paths]
    with ThreadPoolExecutor(cores.available_cores()) as pool:
        found = list(pool.map(read_samples, shards))
    of_shard = dict(zip(shards, found, strict=True))
    samples = {part: [of_shard[path] for path in paths] for part, paths in parts.items()}
    skipped = {
        part: [[f"{path.name}/{name}", why] for path in paths for name, why in of_shard[path].skipped.items()]
        for part, paths in parts.items()
    }
    counts = {part: sum(len(one.offsets) for one in ones) for part, ones in samples.items()}
    for part, count in counts.items():
        if not count:
            reasons = "; ".join(f"{name}: {why}" for name, why in skipped[part][:5]) or "none"
            raise UserError(
                f"{folder}: no image of the {part} shards can be read ({len(skipped[part])} members skipped: {reasons})"
            )
    names = _names(folder, found)
    for one in found:
        one.labels = [names.of[label] or None if isinstance(label, str) else label for label in one.labels]
    classes = _classes(folder, samples["train"])
    number = _numbers(of_shard, classes)
    rows = np.concatenate([_rows(shard, one, number) for shard, one in enumerate(found)], axis=1)
    forms: Counter[tuple[int, int]] = sum((one.forms for one in found), Counter())
    (height, width), alike = forms.most_common(1)[0]
    grey = all(one.grey for one in found)
    return Head(files, classes, counts, height, width, alike, grey, skipped, list(names.notes)), rows


def _names(folder: Path, found: list[ShardSamples]) -> Names:
    try:
        return class_names(label for one in found for label in one.labels if isinstance(label, str))
    except UserError as error:
        raise UserError(f"{folder}: the class {error}") from error


def _rows(shard: int, found: ShardSamples, number: dict[Any, int]) -> NDArray[np.int64]:
    labels = [number[label] for label in found.labels]
    return np.array([[shard] * len(labels), found.offsets, found.sizes, labels], dtype=np.int64).reshape(COLUMNS, -1)


def _classes(folder: Path, train: list[ShardSamples]) -> list[str]:
    """The names in classes.json, else the sorted names or numbers of the training samples.

    Numbers go from 0 to the largest, whether they all occur or not.
    """
    if (folder / CLASSES).exists():
        return _named(folder / CLASSES)
    labels = {label for one in train for label in one.labels if label is not None}
    numbers = [label for label in labels if isinstance(label, int)]
    if len(numbers) < len(labels):
        return sorted(label for label in labels if isinstance(label, str))
    if max(numbers, default=0) >= MOST_UNNAMED_CLASSES:
        raise UserError(f"{folder}: the label {max(numbers)} is too large for a class number: number classes from 0")
    return [str(label) for label in range(max(numbers, default=-1) + 1)]


def _named(path: Path) -> list[str]:
    try:
        names = read_json(path)
    except (OSError, Malformed) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    fine = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    classes = [class_name(name) or name for name in names] if fine else []
    if not fine or len(set(classes)) < len(classes):
        raise UserError(f"{path} must be a list of class names, unique and not empty")
    return classes


def _numbers(found: dict[Path, ShardSamples], classes: list[str]) -> dict[Any, int]:
    """The class number of each label found, which is a name, a number or None (unlabelled)."""
    written = {label: path for path, one in found.items() for label in dict.fromkeys(one.labels) if label is not None}
    kinds = {type(label): f"{label!r} in {path.name}" for label, path in written.items()}
    if len(kinds) > 1:
        raise UserError(
            f"{next(iter(found)).parent}: some samples give the class by name and others by number "
            f"({' but '.join(kinds.values())}): use one of them for all"
        )
    numbers: dict[Any, int] = {name: index for index, name in enumerate(classes)}
    numbers |= {index: index for index in range(len(classes))}
    for label, path in written.items():
        if label not in numbers:
            allowed = f"one of {', '.join(classes[:10])}" if isinstance(label, str) else f"0 to {len(classes) - 1}"
            raise UserError(f"{path}: a sample has the class {label!r}, not {allowed}")
    return {None: UNLABELLED} | numbers
