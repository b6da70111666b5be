"""MNIST and Fashion-MNIST from their four IDX files, plain or compressed."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import ArraySource
from surelabel.data.benchmarks.archive import read_file
from surelabel.data.source import DataSet
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class _Set:
    title: str
    folders: tuple[str, ...]  # searched inside the given folder
    default: str | None  # searched if no folder is given
    classes: tuple[str, ...]
    mean: float  # of pixels between 0 and 1
    std: float
    source: str  # where to get the files


SETS = {
    "mnist": _Set(
        title="MNIST",
        folders=("mnist", "MNIST/raw"),
        default=None,
        classes=tuple("0123456789"),
        mean=0.1307,
        std=0.3081,
        source="Get them from http://yann.lecun.com/exdb/mnist/ or a mirror, and give their folder as data_dir",
    ),
    "fashion-mnist": _Set(
        title="Fashion-MNIST",
        folders=("fashion-mnist", "FashionMNIST/raw"),
        default="/usr/share/datasets/fashion-mnist",
        classes=(
            "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
        ),
        mean=0.2860,
        std=0.3530,
        source="On Debian, `apt-get install dataset-fashion-mnist` installs them in /usr/share/datasets/fashion-mnist, "
        "the default data_dir. Otherwise get them from https://github.com/zalandoresearch/fashion-mnist, "
        "and give their folder as data_dir",
    ),
}  # fmt: skip
IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
UNSIGNED_BYTES = 0x08


def load(data_dir: str | Path | None, name: Literal["mnist", "fashion-mnist"]) -> DataSet:
    """MNIST or Fashion-MNIST, 28×28 in one channel, from the four files in a folder or below it.

    Nothing is downloaded.
    """
    wanted = SETS[name]
    folder = _find(wanted, data_dir)
    train, test = (_source(folder, part, wanted) for part in ("train", "t10k"))
    return DataSet(name, train, test, ((255 * wanted.mean,), (255 * wanted.std,)))


def is_in(place: str | Path, name: str) -> bool:
    """Whether `name` is one of these sets and its files are in this folder."""
    return name in SETS and _inside(SETS[name], Path(place)) is not None


def _find(wanted: _Set, data_dir: str | Path | None) -> Path:
    given = data_dir if data_dir is not None else wanted.default
    found = None if given is None else _inside(wanted, Path(given))
    if found is not None:
        return found
    files = ", ".join(kind.format(part) for part in ("train", "t10k") for kind in (IMAGES, LABELS))
    where = "no data_dir is given" if given is None else f"{given} lacks at least one of them"
    raise UserError(f"{wanted.title} needs {files} (plain or .gz), but {where}. {wanted.source}")


def _inside(wanted: _Set, place: Path) -> Path | None:
    """The folder of the four files: the given one or one in it."""
    for folder in (place, *(place / inner for inner in wanted.folders)):
        if all(_present(folder / kind.format(part)) for kind in (IMAGES, LABELS) for part in ("train", "t10k")):
            return folder
    return None


def _present(path: Path) -> Path | None:
    compressed = path.with_name(path.name + ".gz")
    return next((file for file in (path, compressed) if file.is_file()), None)


def _source(folder: Path, part: str, wanted: _Set) -> ArraySource:
    images = _read(folder / IMAGES.format(part), dimensions=3)
    labels = _read(folder / LABELS.format(part), dimensions=1)
    try:
        return ArraySource(images, labels, wanted.classes)
    except UserError as error:
        raise UserError(f"{folder}, {part}: {error}") from error


def _read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file.

    Bytes 0, 0, type, number of dimensions; sizes as big-endian 32-bit integers; values.
    """
    path = _present(path) or path
    content = read_file(path)
    header = 4 * (1 + dimensions)
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        raise UserError(f"{path} is not an IDX file of bytes in {dimensions} dimension(s): download it again")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise UserError(
            f"{path} is truncated or corrupt: it has {len(content):,} bytes instead of {expected:,}; download it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
