"""Folders of text files, with a sub-folder for each class or a labels CSV, as folders of pictures are laid out."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from surelabel.data.images.layout import check_each_class, check_known_classes, files_below, read_layout
from surelabel.data.images.map_files import Progress
from surelabel.data.probe import TEXT_SUFFIXES
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.data.texts.source import MOST_CHARACTERS, TextSource
from surelabel.utils.errors import UserError
from surelabel.utils.words import printable

REPORTED = 100  # files between two calls of the progress


def load(folder: str | Path, label_files: Sequence[str | Path] = (), progress: Progress | None = None) -> DataSet:
    """A data set out of a folder of texts; `docs/data.md` describes the layouts.

    `label_files` are tables of files and classes; without any, a labels.csv in the folder is one.
    """
    folder = Path(folder)
    layout = read_layout(folder, [Path(file) for file in label_files])
    check_known_classes(layout, layout.classes, TEXT_SUFFIXES)
    sources = {
        part: _source(folder, files, layout.class_of, layout.classes, progress) for part, files in layout.parts.items()
    }
    train = sources["train"]
    check_each_class(train, folder)
    train.suggested = np.array([file in layout.suggested for file in train.files() or ()], dtype=np.bool_)
    return DataSet(folder.resolve().name, train, sources.get("test"))


def load_unlabelled(folder: str | Path, classes: Sequence[str]) -> TextSource:
    """Every text below a folder, whatever the names of its sub-folders."""
    folder = Path(folder)
    files = sorted(file.relative_to(folder).as_posix() for file in files_below(folder) if file != folder / "labels.csv")
    return _source(folder, files, {}, classes)


def load_labelled(folder: str | Path, classes: Sequence[str]) -> TextSource:
    """The labelled texts of a folder, of its test part if it has one."""
    folder = Path(folder)
    layout = read_layout(folder)
    check_known_classes(layout, tuple(classes), TEXT_SUFFIXES)
    files = [file for file in layout.parts.get("test", layout.parts["train"]) if file in layout.class_of]
    if not files:
        raise UserError(
            f"{folder} has no labelled texts: put them into a sub-folder for each class, or add a labels.csv"
        )
    return _source(folder, files, layout.class_of, classes)


def load_listed(folder: Path, class_of: dict[str, str]) -> TextSource:
    """The texts of a folder that a table of files and classes names."""
    return _source(folder, sorted(class_of), class_of, sorted(set(class_of.values())))


def _source(
    folder: Path,
    files: Sequence[str],
    class_of: dict[str, str],
    classes: Sequence[str],
    progress: Progress | None = None,
) -> TextSource:
    named = [file for file in files if PurePosixPath(file).suffix.lower() in TEXT_SUFFIXES]
    if not named:
        raise UserError(f"{folder}: there is no text file (.txt)")
    texts = []
    for number, file in enumerate(named):
        texts.append(_read(folder / file))
        if progress is not None and number % REPORTED == 0:
            progress(number, len(named))
    number_of = {name: place for place, name in enumerate(classes)}
    labels = [number_of.get(class_of.get(file, ""), UNLABELLED) for file in named]
    source = TextSource(texts, labels, classes, list(map(printable, named)), from_files=True)
    source.skipped = tuple((printable(file), "not named as a text (.txt)") for file in sorted({*files} - {*named}))
    return source


def _read(file: Path) -> str:
    """The beginning of a text file, one character more than is kept, so that a longer one is noticed."""
    try:
        with file.open(encoding="utf-8-sig") as stream:
            return stream.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 (at byte {error.start}): convert it, for example by iconv") from error
