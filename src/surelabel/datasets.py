"""Data sets by name or by path."""

from collections.abc import Callable
from pathlib import Path

from surelabel import phc
from surelabel.data import array_files, cifar, folder, idx
from surelabel.data.longtail import long_tailed
from surelabel.data.source import DataSet
from surelabel.errors import UserError, closest

# The names that --data takes; each loads from --data-dir.
NAMED: dict[str, Callable[[str | None], DataSet]] = {
    "phc": lambda where: phc.load(where) if where else phc.load(),
    "cifar10": lambda where: cifar.load(where or ".", "cifar10"),
    "cifar100": lambda where: cifar.load(where or ".", "cifar100"),
    "cifar10-lt10": lambda where: long_tailed(cifar.load(where or ".", "cifar10"), 10),
    "cifar10-lt100": lambda where: long_tailed(cifar.load(where or ".", "cifar10"), 100),
    "cifar100-lt10": lambda where: long_tailed(cifar.load(where or ".", "cifar100"), 10),
    "cifar100-lt100": lambda where: long_tailed(cifar.load(where or ".", "cifar100"), 100),
    "mnist": lambda where: idx.load(where, "mnist"),
    "fashion-mnist": lambda where: idx.load(where, "fashion-mnist"),
    "imagenet": lambda where: folder.load(where or ".", size=224),
}


def load(data: str, data_dir: str | None = None) -> DataSet:
    """The data set of this name, its files in `data_dir`, or the one at this path: a folder, a .npz or a .npy file."""
    if data in NAMED:
        return NAMED[data](data_dir)
    path = Path(data) if data_dir is None else Path(data_dir, data)
    if path.is_dir():
        return folder.load(path)
    if path.suffix == ".npz" and path.is_file():
        return array_files.load_npz(path)
    if path.suffix == ".npy" and path.is_file():
        return array_files.load_npy(path)
    raise UserError(
        f"there is no data set {data!r}, nor a folder, .npz or .npy file of that name.{closest(data, NAMED)}"
    )
