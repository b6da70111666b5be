"""A source of texts, which an encoder turns into features."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.data.labels import number_labels
from surelabel.data.source import Images, Kind, Source
from surelabel.data.tables.frames import is_frame
from surelabel.utils.errors import UserError
from surelabel.utils.words import some

MOST_CHARACTERS = 100_000  # that are read of a text: some thirty pages
SHOWN = 5  # names in a note


class TextSource(Source):
    """Texts in memory, of which no more than `MOST_CHARACTERS` are kept, and what the user calls each.

    Labels: see `number_labels`. `from_files`: the names are those of files.
    """

    kind: Kind = "texts"
    shape = ()

    def __init__(
        self,
        texts: Sequence[str] | NDArray[np.object_],
        labels: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        names: Sequence[str | int] | None = None,
        from_files: bool = False,
    ) -> None:
        self._names = list(range(len(texts))) if names is None else list(names)
        self._texts = np.array([_kept(text) for text in texts], dtype=object)
        self._from_files = from_files
        self.labels, self.classes, about_names = number_labels(labels, classes, len(texts))
        self.notes = (*about_names, *self._noticed(texts))
        self.description = f"texts of about {median(map(len, self._texts)):,.0f} characters"

    def __len__(self) -> int:
        return len(self._texts)

    def samples(self, index: NDArray[np.int64]) -> Images:
        raise UserError("texts are learnt from as an encoder describes them: choose one by encoder, such as ngrams")

    def texts(self, index: NDArray[np.int64]) -> list[str]:
        found: list[str] = self._texts[index].tolist()
        return found

    def names(self, index: NDArray[np.int64]) -> list[str | int]:
        return [self._names[place] for place in index.tolist()]

    def files(self) -> list[str] | None:
        return [str(name) for name in self._names] if self._from_files else None

    def content(self) -> Iterator[bytes]:
        return (text.encode() for text in self._texts)

    def _noticed(self, given: Sequence[str] | NDArray[np.object_]) -> tuple[str, ...]:
        empty = [str(name) for name, text in zip(self._names, given, strict=True) if not text.strip()]
        long = [str(name) for name, text in zip(self._names, given, strict=True) if len(text) > MOST_CHARACTERS]
        notes = [f"Empty texts: {len(empty):,} ({some(empty, SHOWN)})"] if empty else []
        if long:
            notes.append(
                f"Only the first {MOST_CHARACTERS:,} characters are read of {len(long):,} texts ({some(long, SHOWN)})"
            )
        return tuple(notes)


def texts_of(X: Any) -> list[str]:
    """A list, an array or a column of texts."""
    if isinstance(X, str):
        raise UserError("one text is given: give a list of texts")
    values = list(X[X.columns[0]]) if is_frame(X) and len(X.columns) == 1 else np.asarray(X, dtype=object).tolist()
    wrong = next((place for place, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise UserError(
            f"texts are needed, and sample {wrong} is {str(values[wrong])[:40]}: convert it, or leave it out"
        )
    if not values:
        raise UserError("there are 0 texts, and a minimum of 1 is required")
    return values


def _kept(text: str) -> str:
    """What is kept of a text; half of a character, which JSON can write, is none."""
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()
