"""Folders of image files, with a sub-folder for each class or a labels CSV, decoded once into memory."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from surelabel.data.arrays import ArraySource, own_data_set
from surelabel.data.folder_layout import FolderLayout, image_files, read_layout
from surelabel.data.image_files import SUFFIXES, Header, decode, read_header
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.errors import UserError

MIXED_SIZE = 32
MOST_BYTES = 2**33
GROUP = 100

Result = TypeVar("Result")
FilesSkipped = tuple[tuple[str, str], ...]  # each file with the reason


class FolderSource(ArraySource):
    """Decoded images, with the file of each (relative to the folder), and the files left out, each with its reason."""

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        classes: Sequence[str],
        paths: Sequence[str],
        skipped: dict[str, str],
    ) -> None:
        super().__init__(images, labels, classes, "NCHW")
        self.paths = tuple(paths)
        self.skipped: FilesSkipped = tuple(sorted(skipped.items()))


def load(
    folder: str | Path,
    size: int | None = None,
    labels_csv: str | Path | None = None,
    classes: Sequence[str] | None = None,
) -> DataSet:
    """A data set out of an image folder; `docs/data.md` describes the layouts.

    Images become size × size; without `size` they take the size that at least half of them have, else 32 × 32. They
    have one channel if all files are grey. `classes` fixes the names and their order; without it, they are the sorted
    names found among the training images. `labels_csv` is labels.csv in the folder where that exists.
    """
    folder = Path(folder)
    if size is not None and size < 1:
        raise UserError(f"the size of the images must be at least 1 pixel, not {size}")
    layout = read_layout(folder, None if labels_csv is None else Path(labels_csv))
    names = layout.classes if classes is None else tuple(classes)
    refuse_unknown(layout, names)
    opened = {part: attempt(read_header, folder, files) for part, files in layout.parts.items()}
    headers = [header for found, _ in opened.values() for header in found.values()]
    form = _common_form(headers, size)
    _refuse_too_many(len(headers), form, folder)
    sources = {
        part: _source(folder, list(headers), form, layout.class_of, names, skipped)
        for part, (headers, skipped) in opened.items()
    }
    if classes is None:
        _refuse_empty(sources["train"], folder)
    return own_data_set(folder.resolve().name, sources["train"], sources.get("test"))


def load_unlabelled(folder: str | Path, classes: Sequence[str], shape: tuple[int, int, int]) -> FolderSource:
    """Every image below a folder, whatever the names of its sub-folders, as (channels, height, width) = `shape`."""
    folder = Path(folder)
    files = sorted(file.relative_to(folder).as_posix() for file in image_files(folder))
    form = Header(*shape[1:], grey=shape[0] == 1)
    _refuse_too_many(len(files), form, folder)
    return _source(folder, files, form, {}, tuple(classes), {})


def refuse_unknown(layout: FolderLayout, names: tuple[str, ...]) -> None:
    known = set(names)
    for part, files in layout.parts.items():
        for file in files:
            name = layout.class_of.get(file)
            if name is not None and name not in known:
                raise UserError(f"{file} has the class {name!r}, not one of {', '.join(names) or 'none'}")
            if name is None and part == "test" and PurePosixPath(file).suffix.lower() in SUFFIXES:
                raise UserError(f"the test image {file} has no class: give it one, or move it to train")


def attempt(
    job: Callable[[Path], Result], folder: Path, files: Sequence[str]
) -> tuple[dict[str, Result], dict[str, str]]:
    """The result of each file, and the reason for each that had none. Pillow frees the interpreter while it decodes."""

    def one(file: str) -> Result | str:
        try:
            file.encode()
            if PurePosixPath(file).suffix.lower() not in SUFFIXES:
                return "not named as an image"
            return job(folder / file)
        except UnicodeEncodeError:
            return "the name of the file is not UTF-8"
        except UnidentifiedImageError:
            return "not an image of a known format"
        except Exception as error:  # damaged or hostile pixels make Pillow raise nearly anything
            return str(error) or type(error).__name__

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # By the hundred: handing over one small image to a thread takes longer than decoding it.
        groups = [files[start : start + GROUP] for start in range(0, len(files), GROUP)]
        done = pool.map(lambda group: [one(file) for file in group], groups)
        results = dict(zip(files, itertools.chain.from_iterable(done), strict=True))
    skipped = {_printable(file): reason for file, reason in results.items() if isinstance(reason, str)}
    return {file: result for file, result in results.items() if not isinstance(result, str)}, skipped


def _printable(file: str) -> str:
    return file.encode("utf-8", "backslashreplace").decode()


def _common_form(headers: list[Header], size: int | None) -> Header:
    """The height, width and channels that all images are brought to."""
    if not headers:
        return Header(MIXED_SIZE, MIXED_SIZE, grey=True)
    (height, width), count = Counter((header.height, header.width) for header in headers).most_common(1)[0]
    if size is not None:
        height = width = size
    elif 2 * count < len(headers):
        height = width = MIXED_SIZE
    return Header(height, width, grey=all(header.grey for header in headers))


def _refuse_too_many(images: int, form: Header, folder: Path) -> None:
    needed = images * form.height * form.width * (1 if form.grey else 3)
    if needed > MOST_BYTES:
        raise UserError(
            f"{folder}: {images} images of {form.height} × {form.width} pixels would take {needed / 2**30:.0f} GiB of "
            "memory; give a smaller size"
        )


def _source(
    folder: Path,
    files: list[str],
    form: Header,
    class_of: dict[str, str],
    names: tuple[str, ...],
    skipped: dict[str, str],
) -> FolderSource:
    images = np.empty((len(files), 1 if form.grey else 3, form.height, form.width), dtype=np.uint8)
    row = {folder / file: number for number, file in enumerate(files)}

    def fill(path: Path) -> bool:
        images[row[path]] = decode(path, form.height, form.width, form.grey)
        return True

    decoded, undecodable = attempt(fill, folder, files)
    skipped = skipped | undecodable
    if not decoded:
        reasons = "; ".join(f"{file}: {reason}" for file, reason in sorted(skipped.items())[:5])
        raise UserError(f"{folder}: not one image can be read ({len(skipped)} files skipped: {reasons or 'none'})")
    if undecodable:
        images = images[[row[folder / file] for file in decoded]]
    number = {name: index for index, name in enumerate(names)}
    labels = np.array([number.get(class_of.get(file, ""), UNLABELLED) for file in decoded], dtype=np.int64)
    return FolderSource(images, labels, names, list(decoded), skipped)


def _refuse_empty(train: FolderSource, folder: Path) -> None:
    counts = np.bincount(train.labels[train.labels >= 0], minlength=len(train.classes))
    if not counts.all():
        name = train.classes[int(np.argmin(counts))]
        raise UserError(
            f"{folder}: no training image of class {name!r} can be read ({len(train.skipped)} files skipped): add "
            "some, or take the class away"
        )
