"""MNIST and Fashion-MNIST from their four IDX files, plain or compressed. Nothing is downloaded."""

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
    folders: tuple[str, ...]  # looked at inside the given folder
    default: str | None  # looked at where no folder is given
    classes: tuple[str, ...]
    mean: float  # of pixels between 0 and 1
    deviation: float
    source: str


SETS = {
    "mnist": _Set(
        title="MNIST",
        folders=("mnist", "MNIST/raw"),
        default=None,
        classes=tuple("0123456789"),
        mean=0.1307,
        deviation=0.3081,
        source="Get them from http://yann.lecun.com/exdb/mnist/ or a mirror of it, and name their folder (--data-dir)",
    ),
    "fashion-mnist": _Set(
        title="Fashion-MNIST",
        folders=("fashion-mnist", "FashionMNIST/raw"),
        default="/usr/share/datasets/fashion-mnist",
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        mean=0.2860,
        deviation=0.3530,
        source="On Debian, `apt-get install dataset-fashion-mnist` puts them into /usr/share/datasets/fashion-mnist, "
        "which is looked at where no --data-dir is given; otherwise get them from "
        "https://github.com/zalandoresearch/fashion-mnist, and name their folder (--data-dir)",
    ),
}
IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
UNSIGNED_BYTES = 0x08


def load(data_dir: str | Path | None, name: Literal["mnist", "fashion-mnist"]) -> DataSet:
    """MNIST or Fashion-MNIST, 28×28 in one channel, out of a folder with the four files or with a folder of them."""
    wanted = SETS[name]
    folder = _find(wanted, data_dir)
    train, test = (_source(folder, part, wanted) for part in ("train", "t10k"))
    return DataSet(name, train, test, ((255 * wanted.mean,), (255 * wanted.deviation,)))


def is_in(place: str | Path, name: str) -> bool:
    """Whether a folder has the files of the set of this name, if it is one of these."""
    return name in SETS and _inside(SETS[name], Path(place)) is not None


def _find(wanted: _Set, data_dir: str | Path | None) -> Path:
    given = data_dir if data_dir is not None else wanted.default
    found = None if given is None else _inside(wanted, Path(given))
    if found is not None:
        return found
    files = ", ".join(kind.format(part) for part in ("train", "t10k") for kind in (IMAGES, LABELS))
    where = "no folder is given" if given is None else f"{given} lacks at least one of them"
    raise UserError(f"{wanted.title} needs {files} (plain or .gz), but {where}. {wanted.source}")


def _inside(wanted: _Set, place: Path) -> Path | None:
    """The folder of the four files, which is the given one or in it."""
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
    """Four bytes (0, 0, type, number of dimensions), each dimension as a big-endian 32-bit number, then the values."""
    path = _present(path) or path
    content = read_file(path)
    header = 4 * (1 + dimensions)
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        raise UserError(f"{path} is no IDX file of bytes in {dimensions} dimension(s): fetch it again")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise UserError(
            f"{path} is truncated or corrupt: {expected:,} bytes expected, {len(content):,} found; fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
