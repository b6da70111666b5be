"""Data sets by name or by path."""

from collections.abc import Callable
from pathlib import Path

from surelabel import phc
from surelabel.data import array_files, cifar, folder, idx, shards
from surelabel.data.source import DataSet
from surelabel.errors import UserError, closest


def _imagenet(place: Path) -> DataSet:
    return shards.load(place, size=224) if shards.are_in(place) else folder.load(place, size=224)


# The names that --data takes; each loads from --data-dir.
NAMED: dict[str, Callable[[str | None], DataSet]] = {
    "phc": lambda where: phc.load(where) if where else phc.load(),
    "cifar10": lambda where: cifar.load(where or ".", "cifar10"),
    "cifar100": lambda where: cifar.load(where or ".", "cifar100"),
    "mnist": lambda where: idx.load(where, "mnist"),
    "fashion-mnist": lambda where: idx.load(where, "fashion-mnist"),
    "imagenet": lambda where: _imagenet(Path(where or ".")),
}


def load(data: str, data_dir: str | None = None, shape: tuple[int, int, int] | None = None) -> DataSet:
    """The data set of this name, its files in `data_dir`, or the one at this path: a folder of images or of tar
    shards, a .npz or a .npy file. Images of shards become `shape`, where given: (channels, height, width).
    """
    if data in NAMED:
        return NAMED[data](data_dir)
    path = Path(data) if data_dir is None else Path(data_dir, data)
    if path.is_dir():
        return shards.load(path, shape=shape) if shards.are_in(path) else folder.load(path)
    if path.suffix == ".npz" and path.is_file():
        return array_files.load_npz(path)
    if path.suffix == ".npy" and path.is_file():
        return array_files.load_npy(path)
    raise UserError(
        f"there is no data set {data!r}, nor a folder, .npz or .npy file of that name.{closest(data, NAMED)}"
    )
