"""Load `.npy` and `.safetensors` (memory-mapped), `.npz` files, and embeddings in `.parquet` ones.

Imports no torch, as the header of a file chooses the recipe.
"""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.parquet import EmbeddingColumns, read_whole
from surelabel.data.arrays.row_labels import give_labels
from surelabel.data.arrays.source import CHANNELS, ArraySource, Layout, SampleSource, user_data_set
from surelabel.data.arrays.tensors import decode_texts, mapped_tensors, the_rows
from surelabel.data.probe import suit_encoder
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.data.tables.labels import named_classes
from surelabel.utils.errors import UserError
from surelabel.utils.words import some

# Allowed .npz keys for each array, in any case; they include those of Keras and MedMNIST.
KEYS = {
    "images": ("images", "x", "embeddings", "train_images", "x_train"),
    "labels": ("labels", "y", "train_labels", "y_train"),
    "test images": ("test_images", "x_test"),
    "test labels": ("test_labels", "y_test"),
    "classes": ("classes",),
    "ids": ("ids",),
}


def header(path: str | Path) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and type of the samples in a file, by its header alone; None for what cannot be read."""
    path = Path(path)
    try:
        if path.suffix == ".npy":
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            return mapped.shape, mapped.dtype
        if path.suffix == ".safetensors":
            tensors = mapped_tensors(path)
            rows = tensors[the_rows(tensors)]
            return rows.shape, rows.dtype
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


def load_npy(
    path: str | Path, layout: Layout | None = None, label_files: Sequence[str] = (), id_column: str | None = None
) -> DataSet:
    """Samples from NAME.npy, memory-mapped; labels from NAME.labels.npy and ids from NAME.ids.npy if these exist, and
    labels from tables.
    """
    path = Path(path)
    images = _mapped(path)
    beside = [path.with_suffix(suffix) for suffix in (".labels.npy", ".ids.npy")]
    labels, ids = (_mapped(place) if place.exists() else None for place in beside)
    with _about(path):
        train = _source(images, labels, None, layout, ids)
    give_labels(train, label_files, id_column=id_column)
    return user_data_set(path.stem, train, None)


def _mapped(path: Path) -> NDArray[Any]:
    with _reading(path):
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def load_npz(
    path: str | Path, layout: Layout | None = None, label_files: Sequence[str] = (), id_column: str | None = None
) -> DataSet:
    """Samples and, if present, labels, class names, ids and a test set, under the keys in `KEYS`; labels from tables
    too.
    """
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
        train = _source(parts["images"], parts.get("labels"), names, layout, parts.get("ids"))
    give_labels(train, label_files, names is not None, id_column)
    with _about(path):
        return user_data_set(path.stem, train, _test_source(parts, train.classes, layout))


def load_safetensors(
    path: str | Path, layout: Layout | None = None, label_files: Sequence[str] = (), id_column: str | None = None
) -> DataSet:
    """Embeddings of a .safetensors file, memory-mapped, with its tensors `labels` and `ids`; labels from tables too."""
    path = Path(path)
    with _reading(path):
        tensors = mapped_tensors(path)
    with _about(path):
        ids = None if "ids" not in tensors else decode_texts(tensors["ids"])
        labels = tensors.get("labels")
        if labels is not None and labels.ndim == 2 and labels.dtype == np.uint8:
            labels = decode_texts(labels)
        train = EmbeddingSource(tensors[the_rows(tensors)], labels, None, ids)
    give_labels(train, label_files, id_column=id_column)
    return user_data_set(path.stem, train, None)


def load_parquet(
    path: str | Path, columns: EmbeddingColumns, label_files: Sequence[str] = (), id_column: str | None = None
) -> DataSet:
    """Embeddings in a list column of a .parquet file, with its ids and labels; labels from tables too."""
    path = Path(path)
    rows, ids, names = read_whole(path, columns)
    with _about(path):
        train = EmbeddingSource(rows, None if names is None else _without_gaps(names), None, ids)
    if columns.others:
        note = f"{path}: only {columns.rows!r} is learnt from. Not used: {some(columns.others)}"
        train.notes = (*train.notes, note)
    give_labels(train, label_files, id_column=id_column)
    return user_data_set(path.stem, train, None)


LOADERS = {".npy": load_npy, ".npz": load_npz, ".safetensors": load_safetensors}


def _without_gaps(names: NDArray[np.object_]) -> NDArray[np.object_]:
    """The classes of a label column, in which an empty text means unlabelled."""
    texts, _ = named_classes(names)
    texts[texts == ""] = str(UNLABELLED)
    return texts


def _source(
    samples: NDArray[Any],
    labels: NDArray[Any] | None,
    classes: Sequence[str] | None,
    layout: Layout | None,
    ids: NDArray[Any] | None = None,
) -> SampleSource:
    """Images, or embeddings [N, d], which alone may have ids."""
    if samples.ndim == 2:
        return EmbeddingSource(samples, labels, classes, ids)
    if ids is not None:
        raise UserError("ids are for embeddings, rows [N, d]: leave them out, and name samples by their numbers")
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
