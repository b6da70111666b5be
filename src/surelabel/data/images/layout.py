"""The files of an image folder, the split each belongs to, and its class."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn

import numpy as np

from surelabel.data.class_names import Names, class_name, class_names
from surelabel.data.images.formats import SUFFIXES, visible
from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.data.outputs import holds_outputs_only
from surelabel.data.source import Source
from surelabel.utils.errors import UserError

VALIDATION_FOLDERS = frozenset({"val", "valid", "validation"})


@dataclass(frozen=True)
class FolderLayout:
    """Paths are relative to the folder, with forward slashes, and sorted."""

    parts: dict[str, list[str]]  # the files of "train" and perhaps "test"
    class_of: dict[str, str]  # of the files that have one
    classes: tuple[str, ...]  # of the training files
    suggested: frozenset[str] = frozenset()  # files that were labelled because a run had asked for it
    notes: tuple[str, ...] = ()  # about the names of the classes


def read_layout(folder: Path, label_files: Sequence[Path] = ()) -> FolderLayout:
    """The layout given by `label_files`, or by a labels.csv in the folder, or by subfolders."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    own = folder / "labels.csv"
    tables = list(label_files) or ([own] if own.is_file() else [])
    roots = _roots(folder)
    parts: dict[str, list[str]] = {part: [] for part in roots}
    by_folder: dict[str, str] = {}
    for part, root in ((part, root) for part, places in roots.items() for root in places):
        named = set() if _is_unlabelled(root, folder) else _folders(root)
        for file in files_below(root):
            name, top = file.relative_to(folder).as_posix(), file.relative_to(root).parts[0]
            if file != own and file not in tables:
                parts[part].append(name)
            if top in named:
                by_folder[name] = top
    parts = {part: sorted(files) for part, files in parts.items()}
    if not tables:
        _check_no_split_as_class(folder, roots)
        names = _names(folder, by_folder)
        class_of = {file: name for file, top in by_folder.items() if (name := names.of[top])}
        # An empty folder counts as a class, so that it is reported later.
        found = {class_name(top) for root in roots["train"] for top in _class_folders(root, folder)}
        return FolderLayout(parts, class_of, tuple(sorted(found)), notes=names.notes)
    present = {file for files in parts.values() for file in files}
    class_of = dict[str, str]()
    suggested, notes = set[str](), dict[str, None]()
    for table in tables:
        given = read_labels_csv(table, present, folder)
        class_of |= {file: row.label for file, row in given.items()}
        notes |= dict.fromkeys(given.notes)
        suggested = (suggested - given.keys()) | {file for file, row in given.items() if row.suggested}
    classes = tuple(sorted({class_of[file] for file in parts["train"] if file in class_of}))
    return FolderLayout(parts, class_of, classes, frozenset(suggested), tuple(notes))


def _names(folder: Path, by_folder: dict[str, str]) -> Names:
    try:
        return class_names(by_folder.values())
    except UserError as error:
        raise UserError(f"{folder}: a folder named {error}") from error


def check_known_classes(layout: FolderLayout, names: tuple[str, ...], suffixes: frozenset[str] = SUFFIXES) -> None:
    """Raise for an unknown class, or a test file of this kind without one."""
    known = set(names)
    for part, files in layout.parts.items():
        for file in files:
            name = layout.class_of.get(file)
            if name is not None and name not in known:
                raise UserError(f"{file} has the class {name!r}, not one of {', '.join(names) or 'none'}")
            if name is None and part == "test" and PurePosixPath(file).suffix.lower() in suffixes:
                raise UserError(f"the test file {file} has no class: give it one, or move it to train")


def check_each_class(train: Source, folder: Path) -> None:
    """Raise where a class has no training sample that could be read."""
    counts = np.bincount(train.labels[train.labels >= 0], minlength=len(train.classes))
    if not counts.all():
        name = train.classes[int(np.argmin(counts))]
        raise UserError(
            f"{folder}: no training file of class {name!r} can be read ({len(train.skipped)} files skipped): add "
            "some, or take the class away"
        )


def _roots(folder: Path) -> dict[str, list[Path]]:
    """The folders of each split. A folder "train" beside folders of other classes is a class."""
    inner = _folders(folder)
    others = {name for name in inner if class_name(name)} - {"train", "test"}
    if "train" not in inner or ("test" not in inner and others - VALIDATION_FOLDERS):
        return {"train": [folder]}
    if others:
        raise UserError(
            f"{folder} has {', '.join(sorted(others))} beside train: only train, test and unlabelled are read; "
            "move the others elsewhere"
        )
    roots = {"train": [folder / name for name in sorted(inner - {"test"})]}
    return roots | {"test": [folder / "test"]} if "test" in inner else roots


def _check_no_split_as_class(folder: Path, roots: dict[str, list[Path]]) -> None:
    """Reject a folder "test" beside classes if it contains the same classes: it is no class."""
    if roots != {"train": [folder]}:
        return
    inner = _class_folders(folder, folder)
    for part in sorted(inner & (VALIDATION_FOLDERS | {"test"})):
        if same := sorted(_folders(folder / part) & (inner - {part})):
            raise UserError(
                f"{folder / part} would be a class, but contains the same folders as {folder} "
                f"({', '.join(same[:5])}). If it is the test set, move the training classes into {folder / 'train'}"
                f"{'' if part == 'test' else ' and rename it to test'}; otherwise move it elsewhere"
            )


def _class_folders(root: Path, folder: Path) -> set[str]:
    return set() if _is_unlabelled(root, folder) else {name for name in _folders(root) if class_name(name)}


def _is_unlabelled(root: Path, folder: Path) -> bool:
    """Whether this is the folder of unlabelled images beside train."""
    return root != folder and not class_name(root.name)


def files_below(root: Path) -> list[Path]:
    """All visible files below a folder, but those of runs and caches."""
    # Links to folders are followed at the first level only: a link to a parent would never end.
    links = [root / name for name in _folders(root) if (root / name).is_symlink()]
    found = []
    for top in (root, *links):
        for place, inner, files in os.walk(top, onerror=_refuse):
            inner[:] = [name for name in inner if visible(name) and not holds_outputs_only(Path(place, name))]
            found += [Path(place, file) for file in filter(visible, files)]
    return found


def _folders(place: Path) -> set[str]:
    """The folders in this one that may hold data."""
    try:
        inner = [entry for entry in place.iterdir() if visible(entry.name) and entry.is_dir()]
        return {entry.name for entry in inner if not holds_outputs_only(entry)}
    except OSError as error:
        _refuse(error)


def _refuse(error: OSError) -> NoReturn:
    raise UserError(f"cannot read the folder {error.filename}: {error.strerror}") from error
