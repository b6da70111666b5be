"""Open new samples in the form of those that a network was trained on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import JSON_LINES, TABLE_FILES
from surelabel.data.arrays.parquet import find_columns
from surelabel.data.class_names import class_name
from surelabel.data.images.folder import load_labelled, load_unlabelled
from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.data.images.layout import files_below
from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.data.open import NAMED, open_data
from surelabel.data.shards import source as shards
from surelabel.data.source import UNLABELLED, Source
from surelabel.data.tables import source as tables
from surelabel.data.tables.encoding import Encoding
from surelabel.data.tables.rows import LABEL_COLUMNS, NoLabelColumn
from surelabel.data.texts import folder as text_folder
from surelabel.data.texts import table as text_table
from surelabel.utils.errors import UserError
from surelabel.utils.words import printable, some


@dataclass(frozen=True)
class Form:
    """What the samples of a run are like. `name` stands for the run in messages, `folder` holds its own pictures."""

    name: str
    classes: tuple[str, ...]
    picture_shape: tuple[int, int, int] | None = None  # (channels, height, width), where samples are pictures
    scaling: Scaling = PLAIN  # of pictures
    any_size: bool = False  # whether pictures in memory are scaled too
    encoding: Encoding | None = None  # of a table
    label_column: str | None = None  # of a table
    embedding_column: str | None = None  # of a .parquet file
    id_column: str | None = None  # of the same
    of_rows: bool = False  # whether samples are embeddings
    folder: Path | None = None
    text_column: str | None = None  # of a table, where samples are texts


def open_like(data: str, form: Form, data_dir: str | None = None) -> Source:
    """All rows of a table, all pictures or texts of a folder; of anything else the test set, or what there is."""
    if form.text_column is not None:
        return _unlabelled_texts(Path(data_dir or ".", data), form, form.text_column)
    if form.encoding is not None:
        check_table(data, form)
        return tables.load_unlabelled(Path(data_dir or ".", data), form.encoding, form.classes, form.label_column)
    _check_no_table(data, form)
    if _is_folder(data):
        return load_unlabelled(data, form.classes, _picture_shape(form), scaling=form.scaling)
    return _open_set(data, form, data_dir)


def open_labelled_like(
    data: str, form: Form, data_dir: str | None = None, pictures: str | None = None
) -> tuple[Source, NDArray[np.int64]]:
    """Samples with labels, and the number [N] that each label has among the form's classes, -1 without one.

    A table of files and classes may name files in the folder `pictures`, or in the one that the run was trained on.
    """
    source: Source
    if form.text_column is not None:
        source = _labelled_texts(Path(data), form, form.text_column, pictures)
    elif form.encoding is not None:
        check_table(data, form)
        source = _labelled_rows(data, form, form.encoding)
    elif form.picture_shape is not None and data.lower().endswith(".csv") and not Path(data).is_dir():
        source = _listed_pictures(Path(data), pictures, form)
    elif _is_folder(data):
        source = load_labelled(data, form.classes, _picture_shape(form), form.scaling)
    else:
        _check_no_table(data, form)
        source = _open_set(data, form, data_dir if data in NAMED else None)
    return source, _numbers(source, data, form.classes)


def _unlabelled_texts(path: Path, form: Form, column: str) -> Source:
    if path.is_dir():
        return text_folder.load_unlabelled(path, form.classes)
    _check_has_columns(path, form)
    return text_table.load_unlabelled(path, column, form.classes)


def _labelled_texts(path: Path, form: Form, column: str, texts: str | None) -> Source:
    """Texts with their classes; a table that has none of the texts names files, in `texts` or in the run's folder."""
    if path.is_dir():
        return text_folder.load_labelled(path, form.classes)
    if path.suffix.lower() == ".csv" and form.folder is not None and form.folder.is_dir():
        folder, class_of = _where_listed(path, texts, form)
        return text_folder.load_listed(folder, class_of)
    _check_has_columns(path, form)
    return text_table.load_labelled(path, column, form.classes, form.label_column)


def _check_has_columns(path: Path, form: Form) -> None:
    if path.suffix.lower() not in (*TABLE_FILES, JSON_LINES):
        kinds = f"{', '.join(TABLE_FILES)} or {JSON_LINES}"
        raise UserError(
            f"{form.name} was trained on texts: give it a folder of .txt files or a file {kinds}, not {path}"
        )


def _is_folder(data: str) -> bool:
    """Whether this is a folder of image files, not of shards."""
    return data not in NAMED and Path(data).is_dir() and not shards.are_in(Path(data))


def _open_set(data: str, form: Form, data_dir: str | None) -> Source:
    """The test set of some data, or what there is; pictures of shards are brought to the form's shape."""
    column = form.embedding_column
    if form.of_rows and column is None and data.lower().endswith(".parquet"):
        column = find_columns(Path(data_dir or ".", data)).rows
    found = open_data(
        data, data_dir, None, shape=form.picture_shape, scaling=form.scaling, embedding_column=column,
        id_column=form.id_column,
    )  # fmt: skip
    return found.train if found.test is None else found.test


def _picture_shape(form: Form) -> tuple[int, int, int]:
    if form.picture_shape is None:
        raise UserError(f"{form.name} was not trained on pictures: give it samples like its own, not a folder of files")
    return form.picture_shape


def check_table(data: str, form: Form) -> None:
    """Raise unless a run on a table is given one."""
    if not data.lower().endswith(TABLE_FILES):
        raise UserError(f"{form.name} was trained on a table: give it a file {' or '.join(TABLE_FILES)}, not {data}")


def _check_no_table(data: str, form: Form) -> None:
    allowed = ".parquet" if form.of_rows else ()
    if data.lower().endswith(TABLE_FILES) and not data.lower().endswith(allowed) and not Path(data).is_dir():
        own = "pictures: give it a folder of them, or a file" if form.picture_shape else "arrays: give it a file"
        raise UserError(f"{form.name} was trained on {own} .npz or .npy, not {data}")


def _labelled_rows(data: str, form: Form, encoding: Encoding) -> Source:
    """The rows of a table with their labels, in a column named as in the training table."""
    try:
        return tables.load_labelled(data, encoding, form.classes, form.label_column)
    except NoLabelColumn as error:
        asked = f"one of {', '.join(LABEL_COLUMNS)}" if form.label_column is None else repr(form.label_column)
        raise UserError(
            f"{data} needs one column with the labels, named {asked}, as in the table of {form.name}"
        ) from error


def _numbers(source: Source, data: str, classes: tuple[str, ...]) -> NDArray[np.int64]:
    """The number that each sample's class has among these `classes`."""
    labelled = source.labels[source.labels != UNLABELLED]
    present = {class_name(source.classes[number]) for number in np.unique(labelled)}
    if not present:
        raise UserError(f"{data} has no labels: it must hold samples whose class is known")
    number = {class_name(name): place for place, name in enumerate(classes)}
    unknown = sorted(present - set(number))
    if unknown:
        raise UserError(
            f"{data} has the class {unknown[0]!r}, but the run knows only {some(classes, 10)}: name the classes as in "
            "the run's data"
        )
    # An unlabelled sample's -1 takes the last place.
    return np.array([number.get(class_name(name), -1) for name in source.classes] + [-1], dtype=np.int64)[source.labels]


def _listed_pictures(listed: Path, pictures: str | None, form: Form) -> Source:
    """The pictures of the folder in which a table of files and classes names some; those have their class."""
    folder, class_of = _where_listed(listed, pictures, form)
    classes = tuple(sorted(set(class_of.values())))
    source = load_unlabelled(folder, classes, _picture_shape(form), scaling=form.scaling)
    named = set(map(printable, class_of))
    source.skipped = tuple((file, reason) for file, reason in source.skipped if file in named)
    numbers = [classes.index(class_of[file]) if file in class_of else UNLABELLED for file in source.paths]
    source.labels = np.array(numbers, dtype=np.int64)
    return source


def _where_listed(listed: Path, pictures: str | None, form: Form) -> tuple[Path, dict[str, str]]:
    """The folder that holds the files which a table names, and their classes: `pictures`, or the run's own."""
    places = [Path(pictures)] if pictures is not None else []
    places += [form.folder] if form.folder is not None else []
    folders = {place.resolve(): place for place in reversed(places) if place.is_dir() and not shards.are_in(place)}
    found, errors = [], []
    for folder in reversed(folders.values()):
        present = {file.relative_to(folder).as_posix() for file in files_below(folder)}
        try:
            rows = read_labels_csv(listed, present, folder)
            found.append((folder, {file: row.label for file, row in rows.items()}))
        except UserError as error:
            errors.append(error)
    remedy = "put the pictures into a folder with a labels.csv, and give that folder"
    if len(found) > 1:
        raise UserError(f"{listed}: {found[0][0]} and {found[1][0]} both hold files of these names: {remedy}")
    if not found and errors:
        raise UserError("; ".join(dict.fromkeys(map(str, errors)))) from errors[0]
    if not found:
        raise UserError(f"{listed} names files, and there is no folder to look for them in: {remedy}")
    return found[0]
