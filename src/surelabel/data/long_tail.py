"""Long-tailed versions of balanced data sets. The test set stays balanced."""

from collections.abc import Iterable
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import DataSet, Subset
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

# A class is "many" with more training samples than MANY, "few" with fewer than FEW.
MANY, FEW = 100, 10
GROUPS = ("many", "medium", "few")


class GroupFigures(TypedDict):
    """A group of classes: the number of classes and of test samples, and the accuracy on these."""

    classes: int
    count: int
    accuracy: float | None


def class_sizes(largest: int, alpha: float, classes: int) -> list[int]:
    """⌊largest · α^(-i / (K - 1))⌋ for class i of K: the first is α times as large as the last."""
    return [int(largest * alpha ** (-number / (classes - 1))) for number in range(classes)]


def long_tailed(data: DataSet, alpha: int) -> DataSet:
    """The data set with its training classes cut to `class_sizes`, the same in every run."""
    labels = data.train.labels
    present = np.bincount(labels, minlength=len(data.classes))
    sizes = class_sizes(int(present.max()), alpha, len(data.classes))
    if (present < sizes).any():
        name = data.classes[int(np.argmax(present < sizes))]
        raise UserError(f"{data.name} cannot be made long-tailed: class {name} has too few images; is a file missing?")
    random = generator(0, "long tail")
    kept = [random.permutation(np.flatnonzero(labels == number))[:size] for number, size in enumerate(sizes)]
    part = Subset(data.train, np.sort(np.concatenate(kept)))
    return DataSet(f"{data.name}-lt{alpha}", part, data.test, (data.offset, data.scale))


def group_names(counts: Iterable[int]) -> list[str]:
    """The group of each class by its training samples: many (> 100), medium, or few (< 10)."""
    return ["many" if count > MANY else "few" if count < FEW else "medium" for count in counts]


def by_group(
    pool: NDArray[np.int64], classes: int, right: NDArray[np.bool_], labels: NDArray[np.int64]
) -> dict[str, GroupFigures]:
    """The accuracy on classes with many, medium and few samples; empty if all are in one group.

    pool [n]: the true classes of the training samples; right [N]: which test samples were
    classified correctly; labels [N]: their true classes.
    """
    named = np.array(group_names(np.bincount(pool, minlength=classes))) if (pool >= 0).all() else np.array([])
    groups = [name for name in GROUPS if (named == name).any()]
    if len(groups) < 2:
        return {}
    found = {}
    for name in groups:
        inside = (named == name)[labels]
        accuracy = float(right[inside].mean()) if inside.any() else None
        found[name] = GroupFigures(classes=int((named == name).sum()), count=int(inside.sum()), accuracy=accuracy)
    return found
