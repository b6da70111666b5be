"""Load `.npy` (memory-mapped) and `.npz` files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.source import ArraySource, Layout, user_data_set
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


def load_npy(path: str | Path, layout: Layout | None = None) -> DataSet:
    """Images from NAME.npy, memory-mapped, and labels from NAME.labels.npy if it exists."""
    path = Path(path)
    with _reading(path):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    labels_path = path.with_suffix(".labels.npy")
    labels = None
    if labels_path.exists():
        with _reading(labels_path):
            labels = np.load(labels_path, mmap_mode="r", allow_pickle=False)
    with _about(path):
        return user_data_set(path.stem, ArraySource(images, labels, layout=layout), None)


def load_npz(path: str | Path, layout: Layout | None = None) -> DataSet:
    """Images and, if present, labels, class names and a test set, under the keys in `KEYS`."""
    path = Path(path)
    with _reading(path), np.load(path, allow_pickle=False) as file:
        present = file.files
        parts = {part: file[key] for part in KEYS if (key := _only_key(part, present)) is not None}
    with _about(path):
        if "images" not in parts:
            raise UserError(
                f"there are no images: name one array {' or '.join(KEYS['images'])}; "
                f"the file has {', '.join(present) or 'none'}"
            )
        names = None if "classes" not in parts else parts["classes"].ravel().tolist()
        train = ArraySource(parts["images"], parts.get("labels"), names, layout)
        return user_data_set(path.stem, train, _test_source(parts, train.classes, layout))


def _only_key(part: str, present: list[str]) -> str | None:
    keys = [key for name in KEYS[part] for key in present if key.lower() == name]
    if len(keys) > 1:
        raise UserError(f"there are several {part}, {' and '.join(keys)}: keep one")
    return keys[0] if keys else None


def _test_source(parts: dict[str, NDArray[Any]], classes: tuple[str, ...], layout: Layout | None) -> ArraySource | None:
    if "test images" not in parts:
        return None
    if "test labels" not in parts:
        raise UserError(f"the test images have no labels: add an array {' or '.join(KEYS['test labels'])}")
    try:
        return ArraySource(parts["test images"], parts["test labels"], classes, layout)
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
