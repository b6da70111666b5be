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
from surelabel.data.image_files import SUFFIXES, Header, decode, read_header
from surelabel.data.labels_csv import read_labels_csv
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.errors import UserError

UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})
VALIDATION_FOLDERS = frozenset({"val", "valid", "validation"})
MIXED_SIZE = 32
MOST_BYTES = 2**33
GROUP = 100

Result = TypeVar("Result")


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
        self.skipped = tuple(sorted(skipped.items()))


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
    parts, class_of = _scan(folder, labels_csv)
    names = tuple(classes or sorted({class_of[file] for file in parts["train"] if file in class_of}))
    _refuse_unknown(parts, class_of, names)
    opened = {part: _attempt(read_header, folder, files) for part, files in parts.items()}
    form = _common_form([header for headers, _ in opened.values() for header in headers.values()], size, folder)
    sources = {
        part: _source(folder, list(headers), form, class_of, names, skipped)
        for part, (headers, skipped) in opened.items()
    }
    if classes is None:
        _refuse_empty(sources["train"], folder)
    return own_data_set(folder.resolve().name, sources["train"], sources.get("test"))


def _scan(folder: Path, labels_csv: str | Path | None) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The files of "train" and perhaps "test", relative to the folder, and the class of each that has one."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    roots = _roots(folder)
    table = Path(labels_csv) if labels_csv is not None else folder / "labels.csv"
    parts = {
        part: sorted(file for root in places for file in _files(folder, root) if folder / file != table)
        for part, places in roots.items()
    }
    if labels_csv is not None or table.is_file():
        return parts, read_labels_csv(table, {file for files in parts.values() for file in files})
    depth = 0 if roots["train"] == [folder] else 1
    inner = {file: PurePosixPath(file).parts[depth:] for files in parts.values() for file in files}
    class_of = {
        file: place[0]
        for file, place in inner.items()
        if len(place) > 1 and not UNLABELLED_FOLDERS & set(PurePosixPath(file).parts[: depth + 1])
    }
    return parts, class_of


def _roots(folder: Path) -> dict[str, list[Path]]:
    """Where the images of each part lie. A folder "train" beside those of other classes is a class, not a part."""
    inner = {entry.name for entry in folder.iterdir() if entry.is_dir() and _visible(entry.name)}
    others = inner - UNLABELLED_FOLDERS - {"train", "test"}
    if "train" not in inner or ("test" not in inner and others - VALIDATION_FOLDERS):
        return {"train": [folder]}
    if others:
        raise UserError(
            f"{folder} has {', '.join(sorted(others))} beside train: only train, test and unlabelled are read there; "
            "move the rest away"
        )
    roots = {"train": [folder / name for name in sorted(inner - {"test"})]}
    return roots | {"test": [folder / "test"]} if "test" in inner else roots


def _files(folder: Path, root: Path) -> list[str]:
    # Links to folders are followed at the first level only, so that a link to a parent cannot go round for ever.
    links = [entry for entry in root.iterdir() if entry.is_symlink() and entry.is_dir() and _visible(entry.name)]
    found = []
    for top in (root, *links):
        for place, inner, files in os.walk(top):
            inner[:] = filter(_visible, inner)
            found += [Path(place, file).relative_to(folder).as_posix() for file in filter(_visible, files)]
    return found


def _visible(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"


def _refuse_unknown(parts: dict[str, list[str]], class_of: dict[str, str], names: tuple[str, ...]) -> None:
    known = set(names)
    for part, files in parts.items():
        for file in files:
            if file in class_of and class_of[file] not in known:
                raise UserError(f"{file} has the class {class_of[file]!r}, not one of {', '.join(names) or 'none'}")
            if part == "test" and file not in class_of and PurePosixPath(file).suffix.lower() in SUFFIXES:
                raise UserError(f"the test image {file} has no class: give it one, or move it to train")


def _attempt(
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


def _common_form(headers: list[Header], size: int | None, folder: Path) -> Header:
    """The height, width and channels that all images are brought to."""
    if not headers:
        return Header(MIXED_SIZE, MIXED_SIZE, grey=True)
    (height, width), count = Counter((header.height, header.width) for header in headers).most_common(1)[0]
    if size is not None:
        height = width = size
    elif 2 * count < len(headers):
        height = width = MIXED_SIZE
    grey = all(header.grey for header in headers)
    needed = len(headers) * height * width * (1 if grey else 3)
    if needed > MOST_BYTES:
        raise UserError(
            f"{folder}: {len(headers)} images of {height} × {width} pixels would take {needed / 2**30:.0f} GiB of "
            "memory; give a smaller size"
        )
    return Header(height, width, grey)


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

    decoded, undecodable = _attempt(fill, folder, files)
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
            f"{folder}: no training image of class {name!r} can be read; {len(train.skipped)} files skipped"
        )
