"""Folders of image files, with a sub-folder for each class or a labels CSV, decoded once and mapped into memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import user_data_set
from surelabel.data.images.cache import Pictures, decoded
from surelabel.data.images.decode import Header
from surelabel.data.images.layout import check_each_class, check_known_classes, files_below, read_layout
from surelabel.data.images.map_files import Progress
from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.data.source import UNLABELLED, DataSet, FilesSkipped, Source
from surelabel.utils.errors import UserError
from surelabel.utils.words import printable


class FolderSource(Source):
    """Decoded images, with the file of each (relative to the folder), and the files left out, each with its reason."""

    def __init__(
        self,
        images: NDArray[np.uint8],
        rows: NDArray[np.int64],
        labels: NDArray[np.int64],
        classes: tuple[str, ...],
        paths: Sequence[str],
        skipped: dict[str, str],
    ) -> None:
        self._images, self._rows = images, rows
        self.labels = labels
        self.classes = classes
        self.paths = tuple(paths)
        self.skipped: FilesSkipped = tuple(sorted(skipped.items()))
        channels, height, width = self.shape = images.shape[1:]
        colour = "grey" if channels == 1 else "in colour"
        self.description = f"pictures, read at {width} × {height} pixels, {colour}"

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.asarray(self._images[self._rows[index]])  # a plain array, not a mapped one

    def names(self, index: NDArray[np.int64]) -> list[str | int]:
        return [self.paths[place] for place in index.tolist()]

    def files(self) -> tuple[str, ...]:
        return self.paths


def load(
    folder: str | Path,
    size: int | None = None,
    label_files: Sequence[str | Path] = (),
    progress: Progress | None = None,
    scaling: Scaling = PLAIN,
) -> DataSet:
    """A data set out of an image folder; `docs/data.md` describes the layouts.

    Images become size × size; without `size` they take the size that at least half of them have (256 pixels at most),
    else 32 × 32. They have one channel if all files are grey. Classes are the sorted names found among the training
    images. `label_files` are tables of files and classes, of which a later one overrides an earlier one; without any, a
    labels.csv in the folder is one.
    """
    folder = Path(folder)
    if size is not None and size < 1:
        raise UserError(f"the size of the images must be at least 1 pixel, not {size}")
    layout = read_layout(folder, [Path(file) for file in label_files])
    check_known_classes(layout, layout.classes)
    everything = [file for files in layout.parts.values() for file in files]
    pictures = decoded(folder, everything, size, progress, scaling)
    sources = {
        part: _source(pictures, files, layout.class_of, layout.classes, folder) for part, files in layout.parts.items()
    }
    train = sources["train"]
    train.notes = layout.notes
    check_each_class(train, folder)
    train.suggested = np.array([file in layout.suggested for file in train.paths], dtype=np.bool_)
    return user_data_set(folder.resolve().name, sources["train"], sources.get("test"))


def load_unlabelled(
    folder: str | Path,
    classes: Sequence[str],
    shape: tuple[int, int, int],
    progress: Progress | None = None,
    scaling: Scaling = PLAIN,
) -> FolderSource:
    """Every image below a folder, whatever the names of its sub-folders, as (channels, height, width) = `shape`."""
    folder = Path(folder)
    own = folder / "labels.csv"
    files = sorted(file.relative_to(folder).as_posix() for file in files_below(folder) if file != own)
    pictures = decoded(folder, files, Header(*shape[1:], grey=shape[0] == 1), progress, scaling)
    return _source(pictures, files, {}, tuple(classes), folder)


def load_labelled(
    folder: str | Path, classes: Sequence[str], shape: tuple[int, int, int], scaling: Scaling = PLAIN
) -> FolderSource:
    """The labelled images of a folder, of its test part if it has one, as (channels, height, width) = `shape`."""
    folder = Path(folder)
    layout = read_layout(folder)
    check_known_classes(layout, tuple(classes))
    files = [file for file in layout.parts.get("test", layout.parts["train"]) if file in layout.class_of]
    if not files:
        raise UserError(
            f"{folder} has no labelled images: put them into a sub-folder for each class, or add a labels.csv"
        )
    # All of the folder, as `load_unlabelled` decodes it: their caches are one.
    everything = sorted(file for part in layout.parts.values() for file in part)
    pictures = decoded(folder, everything, Header(*shape[1:], grey=shape[0] == 1), scaling=scaling)
    return _source(pictures, files, layout.class_of, tuple(classes), folder)


def _source(
    pictures: Pictures, files: Sequence[str], class_of: dict[str, str], names: tuple[str, ...], folder: Path
) -> FolderSource:
    readable = [file for file in files if file in pictures.rows]
    of_this_part = set(map(printable, files))
    skipped = {file: reason for file, reason in pictures.skipped.items() if file in of_this_part}
    if not readable:
        reasons = "; ".join(f"{file}: {reason}" for file, reason in sorted(skipped.items())[:5])
        raise UserError(f"{folder}: not one image can be read ({len(skipped)} files skipped: {reasons or 'none'})")
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number.get(class_of.get(file, ""), UNLABELLED) for file in readable], dtype=np.int64)
    rows = np.array([pictures.rows[file] for file in readable], dtype=np.int64)
    return FolderSource(pictures.images, rows, labels, names, readable, skipped)
