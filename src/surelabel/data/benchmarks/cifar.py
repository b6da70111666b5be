"""CIFAR-10 and CIFAR-100 from the official binary or python archives, packed or unpacked."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import ArraySource
from surelabel.data.benchmarks.archive import read_files
from surelabel.data.benchmarks.safe_pickle import load_dict
from surelabel.data.source import DataSet
from surelabel.utils.errors import UserError

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

Records = tuple[NDArray[np.int64], NDArray[np.uint8]]  # labels [n], pixels [n, 3072]


@dataclass(frozen=True)
class _Version:
    """One official distribution of a set."""

    archive: str
    archive_bytes: int
    folder: str
    train: tuple[str, ...]
    test: str
    names: str  # the file with the names of the classes
    pickled: bool = False


@dataclass(frozen=True)
class _Set:
    title: str
    classes: int
    train_records: int  # in one official training file
    label_bytes: int  # before each image in a binary file; the last one is the class
    labels_key: str  # of the class labels in a pickle
    names_key: str
    mean: tuple[float, ...]  # of pixels between 0 and 1
    std: tuple[float, ...]
    versions: tuple[_Version, ...]


SETS = {
    "cifar10": _Set(
        "CIFAR-10", 10, 10_000, 1, "labels", "label_names",
        mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616),
        versions=(
            _Version(
                "cifar-10-binary.tar.gz", 170_052_171, "cifar-10-batches-bin",
                tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin", "batches.meta.txt",
            ),
            _Version(
                "cifar-10-python.tar.gz", 170_498_071, "cifar-10-batches-py",
                tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta", pickled=True,
            ),
        ),
    ),
    "cifar100": _Set(
        "CIFAR-100", 100, 50_000, 2, "fine_labels", "fine_label_names",
        mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761),
        versions=(
            _Version(
                "cifar-100-binary.tar.gz", 168_513_733, "cifar-100-binary",
                ("train.bin",), "test.bin", "fine_label_names.txt",
            ),
            _Version(
                "cifar-100-python.tar.gz", 169_001_437, "cifar-100-python", ("train",), "test", "meta", pickled=True
            ),
        ),
    ),
}  # fmt: skip


def load(data_dir: str | Path | None, name: Literal["cifar10", "cifar100"]) -> DataSet:
    """CIFAR-10 or CIFAR-100 from a folder with an official archive or with what one unpacks to.

    The unpacked folder itself works too. Nothing is downloaded.
    """
    wanted = SETS[name]
    version, place = _find(wanted, data_dir)
    files = _read(version, place)
    classes = _class_names(wanted, version, files[version.names], place)
    read = _pickled if version.pickled else _binary
    parts = [read(wanted, files.pop(file), place, file) for file in (*version.train, version.test)]
    test = _source([parts.pop()], classes)
    offset, scale = (tuple(255 * value for value in values) for values in (wanted.mean, wanted.std))
    return DataSet(name, _source(parts, classes), test, (offset, scale))


def _find(wanted: _Set, data_dir: str | Path | None) -> tuple[_Version, Path]:
    """The version that is quickest to read: unpacked before packed, binary before python."""
    if data_dir is not None:
        for version, place in _places(wanted, Path(data_dir)):
            if place.is_file() or (place / version.train[0]).is_file():
                return version, place
    where = "no data_dir is given" if data_dir is None else f"{data_dir} has none of them"
    archives = " or ".join(version.archive for version in wanted.versions)
    folders = " or ".join(f"{version.folder}/" for version in wanted.versions)
    raise UserError(f"{wanted.title} needs {archives}, or the unpacked {folders}, but {where}. Get one from {HOME}")


def _places(wanted: _Set, data_dir: Path) -> Iterator[tuple[_Version, Path]]:
    for version in wanted.versions:
        yield version, data_dir / version.folder
        yield version, data_dir
    for version in wanted.versions:
        yield version, data_dir / version.archive


def _read(version: _Version, place: Path) -> dict[str, bytes]:
    try:
        return read_files(place, (*version.train, version.test, version.names))
    except UserError as error:
        if place.is_dir():
            raise
        raise UserError(f"{error} (the official file has {version.archive_bytes:,} bytes)") from error


def _class_names(wanted: _Set, version: _Version, content: bytes, place: Path) -> list[str]:
    origin = f"{place}: {version.names}"
    if version.pickled:
        listed = load_dict(content, origin).get(wanted.names_key)
        raw = [name for name in listed if isinstance(name, bytes)] if isinstance(listed, list) else []
    else:
        raw = content.split()
    if len(raw) != wanted.classes:
        raise UserError(f"{origin} names {len(raw)} classes instead of {wanted.classes}: download it again")
    return [name.decode("utf-8", "replace") for name in raw]


def _binary(wanted: _Set, content: bytes, place: Path, file: str) -> Records:
    size = wanted.label_bytes + PIXELS
    if not content or len(content) % size:
        official = size * (10_000 if file == wanted.versions[0].test else wanted.train_records)
        raise UserError(
            f"{place}: {file} is truncated or corrupt: its {len(content):,} bytes are not a multiple of "
            f"{size:,}, the size of a record (the official file has {official:,} bytes); download it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    labels = records[:, wanted.label_bytes - 1].astype(np.int64)
    return _checked(wanted, labels, records[:, wanted.label_bytes :], f"{place}: {file}")


def _pickled(wanted: _Set, content: bytes, place: Path, file: str) -> Records:
    origin = f"{place}: {file}"
    batch = load_dict(content, origin)
    pixels, labels = batch.get("data"), batch.get(wanted.labels_key)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise UserError(f"{origin} is corrupt: it has no data with {PIXELS} bytes per image; download it again")
    if not isinstance(labels, list) or len(labels) != len(pixels) or not all(type(label) is int for label in labels):
        raise UserError(
            f"{origin} is corrupt: it has no {wanted.labels_key} with one label per image; download it again"
        )
    return _checked(wanted, np.array(labels, dtype=np.int64), pixels, origin)


def _checked(wanted: _Set, labels: NDArray[np.int64], pixels: NDArray[np.uint8], origin: str) -> Records:
    wrong = (labels < 0) | (labels >= wanted.classes)
    if wrong.any():
        index = int(np.argmax(wrong))
        raise UserError(f"{origin} is corrupt: record {index} has label {labels[index]}, not 0 to {wanted.classes - 1}")
    return labels, pixels


def _source(parts: list[Records], classes: list[str]) -> ArraySource:
    pixels = np.concatenate([pixels for _, pixels in parts])
    return ArraySource(pixels.reshape(-1, *SHAPE), np.concatenate([labels for labels, _ in parts]), classes, "NCHW")
