"""Encode table columns as numbers, as fitted on the training table."""

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.tables.columns import Column, Columns, as_texts, in_row, numeric
from surelabel.utils.bounded import Malformed
from surelabel.utils.errors import UserError
from surelabel.utils.typed import typed

# Rarer values of a column beyond these are merged into one.
MOST_LEVELS = 64
# With no more rows than this, unique values need not be identifiers.
FEW_ROWS = 10
# Numbers that `float` does not read: 12,5 or 1,065, <0.1, 5 %.
NEARLY_NUMBER = re.compile(r"[<>≤≥~]? ?[-+]?\d+(,\d{3})*([.,]\d+)?([eE][-+]?\d+)? ?%?")


@dataclass(frozen=True)
class Numeric:
    """A standardised numeric column. Missing values become the median, with an indicator column.

    Without missing values in training there is no indicator: the network could not have learnt it.
    """

    name: str
    median: float
    mean: float
    std: float
    tells_missing: bool

    def __post_init__(self) -> None:
        if self.std <= 0:
            raise ValueError(f"the std of column {self.name!r} is {self.std}")

    @property
    def width(self) -> int:
        return 1 + self.tells_missing

    def encode(self, values: Column, first: int = 0) -> NDArray[np.float32]:
        """values [N] -> [N, 1], or [N, 2] with the indicator of missing values; `first` is the number of their row."""
        if not numeric(values):
            values = _numbers(values, self.name, first)
        _check_finite(self.name, values, np.arange(first, first + len(values)))
        missing = np.isnan(values)
        standard = (np.where(missing, self.median, values) - self.mean) / self.std
        return np.stack([standard, missing][: self.width], axis=1).astype(np.float32)


@dataclass(frozen=True)
class Categorical:
    """A one-hot column: one column per level, and a last one for other and missing values."""

    name: str
    levels: tuple[str, ...]  # sorted

    @property
    def width(self) -> int:
        return len(self.levels) + 1

    def encode(self, values: Column, first: int = 0) -> NDArray[np.float32]:
        """values [N] -> [N, levels + 1], 1 where a row has that level and 0 elsewhere."""
        number = {level: place for place, level in enumerate(self.levels)}
        places = np.array([number.get(text, len(number)) for text in as_texts(values)], dtype=np.int64)
        return np.eye(self.width, dtype=np.float32)[places]


@dataclass(frozen=True)
class Encoding:
    """The encoding of each column of a table, in order; d columns after encoding."""

    columns: tuple[Numeric | Categorical, ...]

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The original column of each encoded column, as a number [d]."""
        return np.repeat(np.arange(len(self.columns)), [column.width for column in self.columns])

    @cached_property
    def standardised(self) -> NDArray[np.bool_]:
        """Which encoded columns are standardised numbers [d]."""
        kinds = [[isinstance(column, Numeric), *[False] * (column.width - 1)] for column in self.columns]
        return np.concatenate(kinds)

    @property
    def names(self) -> dict[str, list[str]]:
        """The column names by kind."""
        kinds = {"numbers": Numeric, "categories": Categorical}
        return {kind: [one.name for one in self.columns if isinstance(one, of)] for kind, of in kinds.items()}

    @property
    def texts(self) -> frozenset[str]:
        """The columns to read as texts, even if they look like numbers."""
        return frozenset(self.names["categories"])

    def encode(self, columns: Columns, first: int = 0) -> NDArray[np.float32]:
        """Encode a table -> [N, d]. It needs all columns of the training table, in any order.

        `first` is the number of its first row in the file, for errors.
        """
        absent = [column.name for column in self.columns if column.name not in columns]
        if absent:
            raise UserError(
                f"the table lacks {'the columns' if len(absent) > 1 else 'the column'} "
                f"{', '.join(map(repr, absent[:10]))}, which the network was trained on; it has "
                f"{', '.join(map(repr, list(columns)[:20])) or 'none'}"
            )
        return np.concatenate([column.encode(columns[column.name], first) for column in self.columns], axis=1)

    def as_json(self) -> dict[str, Any]:
        return {"columns": [{"kind": type(column).__name__.lower()} | asdict(column) for column in self.columns]}

    @classmethod
    def from_json(cls, stored: Any) -> "Encoding":
        """The inverse of `as_json`; raises `Malformed`."""
        kinds = {"numeric": Numeric, "categorical": Categorical}
        entries = typed(stored, dict[str, list[dict[str, Any]]]).get("columns", [])
        if not entries or not all(str(entry.get("kind")) in kinds for entry in entries):
            raise Malformed(f"its columns are not of the kinds {' and '.join(kinds)}")
        return cls(tuple(typed(entry, kinds[entry["kind"]], f"column {n}") for n, entry in enumerate(entries)))


def learn(
    columns: Columns, categorical: Collection[str] = (), rows: NDArray[np.int64] | None = None
) -> tuple[Encoding, tuple[str, ...]]:
    """Fit the encoding of a training table; also returns notes on columns that were left out.

    Numbers are numeric unless their column is listed in `categorical`; texts are categorical.
    `rows` [N] are the row numbers in the file, from 0, for errors, if the table is a subset of it.
    """
    if rows is None:
        rows = np.arange(max(map(len, columns.values()), default=0))
    unknown = [name for name in categorical if name not in columns]
    if unknown:
        raise UserError(
            f"the categorical column {unknown[0]!r} does not exist; the table has {', '.join(map(repr, columns))}"
        )
    learnt: list[Numeric | Categorical] = []
    notes: list[str] = []
    for name, values in columns.items():
        declared = name in categorical
        found: Numeric | Categorical | str
        if numeric(values) and not declared:
            found = _learn_numeric(name, np.asarray(values, dtype=np.float64), rows)
        else:
            found = _learn_categorical(name, as_texts(values), declared, notes)
        if isinstance(found, str):
            notes.append(f"column {name!r} is left out: {found}")
        else:
            learnt.append(found)
    if not learnt:
        raise UserError(f"the table has no column to learn from. {' '.join(f'{note}.' for note in notes)}".strip())
    return Encoding(tuple(learnt)), tuple(notes)


def _learn_numeric(name: str, values: NDArray[np.float64], rows: NDArray[np.int64]) -> Numeric | str:
    _check_finite(name, values, rows)
    missing = np.isnan(values)
    known = values[~missing]
    if not len(known):
        return "it has no values"
    if (known == known[0]).all() and not missing.any():
        return f"it is {known[0]:g} everywhere"
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(known.mean()), float(known.std()) or 1.0
    if not np.isfinite([mean, std]).all():
        largest = np.nanargmax(np.abs(values))
        raise UserError(
            f"column {name!r} is {values[largest]:g} {in_row(int(rows[largest]))}, too large to compute with: if it "
            "means a missing value, leave the cell empty"
        )
    return Numeric(name, float(np.median(known)), mean, std, bool(missing.any()))


def _check_finite(name: str, values: Column, rows: NDArray[np.int64]) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        row = int(rows[np.argmax(infinite)])
        raise UserError(f"column {name!r} is infinite {in_row(row)}: correct it, or leave the cell empty")


def _learn_categorical(name: str, texts: NDArray[np.object_], declared: bool, notes: list[str]) -> Categorical | str:
    levels, counts = np.unique(texts[texts != ""], return_counts=True)
    if not len(levels):
        return "it has no values"
    if len(levels) == 1 and counts[0] == len(texts):
        return f"it is {levels[0]!r} everywhere"
    if not declared and identifies(texts):
        return "all its texts differ, so it identifies rows and says nothing about classes"
    if len(levels) > MOST_LEVELS:
        notes.append(
            f"column {name!r} has {len(levels)} different texts: the {MOST_LEVELS} most frequent become categories, "
            "the others are merged into one"
        )
        levels = np.sort(levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]])
    return Categorical(name, tuple(levels.tolist()))


def identifies(values: Column) -> bool:
    """Whether this column names the rows: its texts all differ."""
    if numeric(values):
        return False
    texts = values[values != ""]
    return len(texts) > FEW_ROWS and len(set(texts)) == len(texts)


def check_numbers(columns: Columns, categories: Collection[str], remedy: str) -> None:
    """Reject columns of numbers with a few words among them: categories would lose the order.

    Columns in `categories` may hold anything. `remedy` ends the error message.
    """
    for name, texts in columns.items():
        if numeric(texts) or name in categories:
            continue
        filled = np.flatnonzero(texts != "")
        broken = [row for row in filled if not _is_number(texts[row])]
        meant = len(filled) - len(broken) + sum(bool(NEARLY_NUMBER.fullmatch(texts[row])) for row in broken)
        if broken and 2 * meant > len(filled):
            raise UserError(
                f"column {name!r} seems to hold numbers, but is {texts[broken[0]]!r} {in_row(int(broken[0]))} "
                f"({len(broken)} such cells of {len(filled)}): {remedy}"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(texts: Column, name: str, first: int) -> NDArray[np.float64]:
    """Texts as numbers, for a column that was numeric in training."""
    numbers = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        try:
            numbers[row] = float(text or "nan")
        except ValueError:
            raise UserError(
                f"column {name!r} was numeric in training, but is {text!r} {in_row(first + row)}: correct it, or "
                "leave it empty"
            ) from None
    return numbers
