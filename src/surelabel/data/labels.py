"""Check labels given as numbers or names, and turn them into class numbers."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.data.class_names import class_name, class_names
from surelabel.data.source import UNLABELLED
from surelabel.utils.errors import UserError

# More classes are a mistake (an id taken for a class), and their names would fill the memory.
MOST_UNNAMED_CLASSES = 65_536
CHUNK = 2**16


def number_labels(
    labels: ArrayLike | None, classes: Sequence[str] | None, samples: int
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """The class number of each sample [N], `UNLABELLED` if it has none, the class names, and notes on these.

    Labels are integers from 0, or names; -1 means unlabelled in both. Without `classes`, integers
    are named "0", "1", ... up to the largest, and names are numbered in sorted order.
    """
    names = None if classes is None else _checked_names(classes)
    if labels is None:
        return np.broadcast_to(np.int64(UNLABELLED), samples), names or (), ()
    given = np.asarray(labels)
    if given.shape == (samples, 1):
        given = given[:, 0]
    if given.shape != (samples,):
        shape = "x".join(map(str, given.shape))
        raise UserError(f"there are {samples} images but {shape or 'no list of'} labels: give one label for each image")
    if given.dtype.kind in "OT":
        given = _texts(given)
    return _from_names(given, names) if given.dtype.kind == "U" else (*_from_numbers(given, names), ())


def _checked_names(classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(str(name) for name in classes)
    if len(set(names)) < len(names) or "" in names:
        raise UserError(f"class names must be unique and not empty, but are {', '.join(names)}")
    return names


def _texts(given: NDArray[np.object_]) -> NDArray[np.str_]:
    """Names from an array of Python objects, such as pandas gives."""
    for index, label in enumerate(given):
        if not isinstance(label, str | int | np.integer):
            raise UserError(f"the label of sample {index} is {label!r}: give a class name, or -1 for unlabelled")
    return given.astype(np.str_)


def _from_numbers(
    given: NDArray[np.generic], names: tuple[str, ...] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if given.dtype.kind not in "iubf":
        raise UserError(f"labels must be integers or names, not {given.dtype}")
    if names is None:
        largest = -1
        for first, values in _chunks(given):
            too_large = values >= MOST_UNNAMED_CLASSES
            _refuse(given, too_large, "too large for a class number: number the classes from 0", first)
            largest = max(largest, int(values.max()))
        names = tuple(str(number) for number in range(largest + 1))
    allowed = (
        f"outside 0 to {len(names) - 1} (and {UNLABELLED} for unlabelled)" if names else "but no classes are given"
    )
    for first, values in _chunks(given):
        _refuse(given, (values < UNLABELLED) | (values >= len(names)), allowed, first)
    # A read-only array, such as a mapped file, need not be copied.
    return given.astype(np.int64, copy=bool(given.flags.writeable)), names


def _chunks(given: NDArray[np.generic]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Chunks of the labels, each with the index of its first: a mapped file may not fit in memory.

    As floats, since a cast to int64 would turn an unsigned 2**64 - 1 into -1.
    """
    for first in range(0, len(given), CHUNK):
        values = given[first : first + CHUNK].astype(np.float64)
        _refuse(given, ~np.isfinite(values) | (values != np.floor(values)), "which is not an integer", first)
        yield first, values


def _from_names(
    given: NDArray[np.generic], names: tuple[str, ...] | None
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    distinct, inverse, counts = np.unique(given, return_inverse=True, return_counts=True)
    spellings = [str(name) for name in distinct]
    notes: tuple[str, ...] = ()
    if names is None:
        repeated = zip(spellings, counts.tolist(), strict=True)
        found = class_names(chain.from_iterable(repeat(*pair) for pair in repeated))
        names, notes = tuple(name for name in found.classes if name != str(UNLABELLED)), found.notes
    numbers = {"": UNLABELLED, str(UNLABELLED): UNLABELLED} | {name: number for number, name in enumerate(names)}
    unknown = UNLABELLED - 1
    # A name that was declared is a class, whatever it says.
    found_numbers = [numbers.get(name, numbers.get(class_name(name), unknown)) for name in spellings]
    result = np.array(found_numbers, dtype=np.int64)[inverse]
    _refuse(given, result == unknown, f"not one of the {len(names)} classes ({', '.join(names[:10])})")
    return result, names, notes


def _refuse(given: NDArray[np.generic], wrong: NDArray[np.bool_], why: str, first: int = 0) -> None:
    """Raise if a label is wrong; `wrong` covers the labels from index `first` on."""
    if wrong.any():
        index = first + int(np.argmax(wrong))
        raise UserError(f"the label of sample {index} is {given[index].item()!r}, {why}")
