"""Load `.npy` (memory-mapped) and `.npz` files. Imports no torch, as the header of a file chooses the recipe."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.row_labels import give_labels
from surelabel.data.arrays.source import CHANNELS, ArraySource, Layout, SampleSource, user_data_set
from surelabel.data.probe import suit_encoder
from surelabel.data.source import DataSet
from surelabel.utils.errors import UserError

# Allowed .npz keys for each array, in any case; they include those of Keras and MedMNIST.
KEYS = {
    "images": ("images", "x", "train_images", "x_train"),
    "labels": ("labels", "y", "train_labels", "y_train"),
    "test images": ("test_images", "x_test"),
    "test labels": ("test_labels", "y_test"),
    "classes": ("classes",),
}


def header(path: str | Path) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and type of the samples in a file, by its header alone; None for what cannot be read."""
    path = Path(path)
    try:
        if path.suffix == ".npy":
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped.shape, mapped.dtype
        with zipfile.ZipFile(path) as archive:
            key = _only_key("images", [name.removesuffix(".npy") for name in archive.namelist()])
            with archive.open(f"{key}.npy") as member:
                read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
                shape, _, dtype = read[np.lib.format.read_magic(member)[0]](member)
                return shape, dtype
    except Exception:  # a damaged header may raise nearly anything, and is reported when the file is read
        return None


def holds_embeddings(path: str | Path) -> bool:
    """Whether the samples in a file are rows of numbers."""
    found = header(path)
    return found is not None and len(found[0]) == 2


def suits_encoder(path: str | Path) -> bool:
    """Whether the samples in a file are images that the pretrained encoder should describe."""
    found = header(path)
    if found is None or found[1] != np.uint8 or len(found[0]) not in (3, 4):
        return False
    count, *sides = found[0]
    if len(sides) == 2:
        return suit_encoder((1, *sides), count)
    return suit_encoder((sides[0], *sides[1:]) if sides[0] in CHANNELS else (sides[2], *sides[:2]), count)


def load_npy(path: str | Path, layout: Layout | None = None, label_files: Sequence[str] = ()) -> DataSet:
    """Samples from NAME.npy, memory-mapped, and labels from NAME.labels.npy if it exists, and from tables."""
    path = Path(path)
    with _reading(path):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    labels_path = path.with_suffix(".labels.npy")
    labels = None
    if labels_path.exists():
        with _reading(labels_path):
            labels = np.load(labels_path, mmap_mode="r", allow_pickle=False)
    with _about(path):
        train = _source(images, labels, None, layout)
    if label_files:
        give_labels(train, map(Path, label_files))
    return user_data_set(path.stem, train, None)


def load_npz(path: str | Path, layout: Layout | None = None, label_files: Sequence[str] = ()) -> DataSet:
    """Samples and, if present, labels, class names and a test set, under the keys in `KEYS`; labels from tables too."""
    path = Path(path)
    with _reading(path), np.load(path, allow_pickle=False) as file:
        present = file.files
        parts = {part: file[key] for part in KEYS if (key := _only_key(part, present)) is not None}
    with _about(path):
        if "images" not in parts:
            raise UserError(
                f"there are no samples: name one array {' or '.join(KEYS['images'])}; "
                f"the file has {', '.join(present) or 'none'}"
            )
        names = None if "classes" not in parts else parts["classes"].ravel().tolist()
        train = _source(parts["images"], parts.get("labels"), names, layout)
    if label_files:
        give_labels(train, map(Path, label_files), names is not None)
    with _about(path):
        return user_data_set(path.stem, train, _test_source(parts, train.classes, layout))


def _source(
    samples: NDArray[Any], labels: NDArray[Any] | None, classes: Sequence[str] | None, layout: Layout | None
) -> SampleSource:
    """Images, or embeddings [N, d]."""
    if samples.ndim == 2:
        return EmbeddingSource(samples, labels, classes)
    return ArraySource(samples, labels, classes, layout)


def _only_key(part: str, present: list[str]) -> str | None:
    keys = [key for name in KEYS[part] for key in present if key.lower() == name]
    if len(keys) > 1:
        raise UserError(f"there are several {part}, {' and '.join(keys)}: keep one")
    return keys[0] if keys else None


def _test_source(
    parts: dict[str, NDArray[Any]], classes: tuple[str, ...], layout: Layout | None
) -> SampleSource | None:
    if "test images" not in parts:
        return None
    if "test labels" not in parts:
        raise UserError(f"the test images have no labels: add an array {' or '.join(KEYS['test labels'])}")
    try:
        return _source(parts["test images"], parts["test labels"], classes, layout)
    except UserError as error:
        raise UserError(f"in the test set, {error}") from error


@contextmanager
def _about(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:  # a damaged header reaches Python's parser, which may raise nearly anything
        raise UserError(
            f"{path} cannot be read ({error}): it is truncated, corrupt or holds Python objects; "
            "save plain arrays again with np.save or np.savez"
        ) from error
