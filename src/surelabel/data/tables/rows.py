"""What a table says of its rows beside what they hold: classes, groups, and which are for the test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surelabel.data.groups import group_numbers
from surelabel.data.source import UNLABELLED
from surelabel.data.tables.columns import MISSING, Column, Columns, as_texts, in_row
from surelabel.data.tables.labels import named_classes, with_labels
from surelabel.utils.errors import UserError, suggestion

LABEL_COLUMNS = ("label", "class", "target", "y")
SPLIT_COLUMN = "split"


class NoLabelColumn(UserError):
    """A table does not say which of its columns holds the labels."""


@dataclass(frozen=True)
class Labelled:
    """The class of each row [N], and what decides how its label is used."""

    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    in_test: NDArray[np.bool_]
    groups: NDArray[np.int64] | None
    suggested: NDArray[np.bool_]
    notes: tuple[str, ...]

    @property
    def parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows to train on and those to test on."""
        return np.flatnonzero(~self.in_test), np.flatnonzero(self.in_test)


def take_labels(
    columns: Columns, label_column: str | None, group_column: str | None, label_files: Sequence[str]
) -> Labelled:
    """Take the columns of labels, groups and split out of a table; `label_files` have labels of more rows."""
    label = _label_column(columns, label_column)
    groups = None if group_column is None else _groups(columns, group_column, label)
    texts, suggested, about_names = with_labels(columns.pop(label), label_files)
    in_test = _in_test(columns.pop(SPLIT_COLUMN)) if SPLIT_COLUMN in columns else np.zeros(len(texts), bool)
    if in_test.all():
        raise UserError(f"column {SPLIT_COLUMN!r} leaves no row to train on")
    classes = _classes(texts[~in_test], label)
    notes = tuple(f"Column {label!r}: {note}" for note in about_names)
    labels = _numbered(texts, classes, label)
    if (labels[in_test] == UNLABELLED).any():
        row = int(np.argmax(in_test & (labels == UNLABELLED)))
        raise UserError(f"the test sample {in_row(row)} has no label: label it, or make it a training row")
    if groups is not None and np.isin(groups[in_test], groups[~in_test]).any():
        notes = (*notes, f"Rows of one {group_column!r} are in training and in the test: its metrics flatter")
    return Labelled(labels, classes, in_test, groups, suggested, notes)


def take_known_labels(
    columns: Columns, label_column: str | None, classes: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows [n] of another table to test on, all where it does not say, and the classes [n] of these."""
    label = _label_column(columns, label_column)
    texts = as_texts(columns.pop(label))
    if not set(texts) <= {"", *classes}:
        texts, _ = named_classes(texts)
    in_test = _in_test(columns[SPLIT_COLUMN]) if SPLIT_COLUMN in columns else np.zeros(len(texts), bool)
    rows = np.flatnonzero(in_test) if in_test.any() else np.arange(len(texts))
    unknown = sorted(set(texts[rows]) - {"", *classes})
    if unknown:
        raise UserError(f"column {label!r} has the class {unknown[0]!r}, but the run knows only {listed(classes)}")
    return rows, _numbered(texts[rows], tuple(classes), label)


def may_be_label(name: str, asked: str | None) -> bool:
    """Whether a column is to be read as texts because it holds the labels."""
    return name == asked or (asked is None and name.lower() in LABEL_COLUMNS)


def listed(names: Sequence[str] | Columns) -> str:
    shown = list(names)[:20]
    return ", ".join(map(repr, shown)) + (", ..." if len(names) > len(shown) else "") if shown else "no columns"


def _label_column(columns: Columns, asked: str | None) -> str:
    if asked is not None:
        if asked not in columns:
            raise NoLabelColumn(f"label_column: there is no column {asked!r}; the table has {listed(columns)}")
        return asked
    found = [name for name in columns if name.lower() in LABEL_COLUMNS]
    if len(found) == 1:
        return found[0]
    problem = f"several columns may hold the labels ({', '.join(found)})" if found else "no column is named as labels"
    raise NoLabelColumn(
        f"{problem}: name it by label_column, or call it {' or '.join(LABEL_COLUMNS)}. The table has {listed(columns)}"
    )


def _groups(columns: Columns, asked: str, label: str) -> NDArray[np.int64]:
    """The group of each row by a column, which is taken out."""
    if asked in (label, SPLIT_COLUMN):
        raise UserError(
            f"group_column: column {asked!r} holds the {'labels' if asked == label else 'split'}: name the one that "
            "says which rows belong together"
        )
    if asked not in columns:
        raise UserError(f"group_column: there is no column {asked!r}.{suggestion(asked, columns)}")
    names = as_texts(columns.pop(asked))
    return group_numbers(names.astype(np.str_), np.isin(names, MISSING))


def _in_test(values: Column) -> NDArray[np.bool_]:
    """Which rows belong to the test set."""
    words = [str(text).lower() for text in as_texts(values)]
    wrong = [word for word in words if word not in ("train", "test", "")]
    if wrong:
        raise UserError(
            f"column {SPLIT_COLUMN!r} says which rows are for the test: train, test or nothing, not {wrong[0]!r}. "
            "If it means something else, name it otherwise"
        )
    return np.array([word == "test" for word in words])


def _classes(texts: NDArray[np.object_], label: str) -> tuple[str, ...]:
    """The classes that the training rows name, numbers in their own order."""
    names: list[str] = np.unique(texts[texts != ""]).tolist()
    if len(names) < 2:
        raise UserError(
            f"column {label!r} names {'no class' if not names else f'the class {names[0]!r} alone'}: at least two are "
            "needed, and an empty cell means unlabelled"
        )
    if "-1" in names and len(names) > 2:
        raise UserError(
            f"column {label!r}: -1 may be a class or mean unlabelled. Leave the cells of unlabelled rows "
            "empty, or give the class another name"
        )
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(names)


def _numbered(texts: NDArray[np.object_], classes: tuple[str, ...], label: str) -> NDArray[np.int64]:
    number = {"": UNLABELLED} | {name: place for place, name in enumerate(classes)}
    unknown = [text for text in texts if text not in number]
    if unknown:
        raise UserError(f"column {label!r}: no training row is of the class {unknown[0]!r}, which a test row has")
    return np.array([number[text] for text in texts], dtype=np.int64)
