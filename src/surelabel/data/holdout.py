"""Keeping some of the labelled samples aside, to test on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import DataSet, Subset
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator


@dataclass(frozen=True)
class Fold:
    """Part number `part` of so many equal ones, from 1."""

    part: int
    of: int


def parse_holdout(text: str) -> Fraction | Fold:
    """`20%`, a share of each class, or `2/5`, the second of five parts that are each tested on once."""
    written = text.strip()
    percentage = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,6})?) ?%", written)
    if percentage and Fraction(percentage[1]) > 0:
        return Fraction(percentage[1]) / 100
    fold = re.fullmatch(r"([0-9]{1,3})/([0-9]{1,3})", written)
    if fold and 1 <= int(fold[1]) <= int(fold[2]) and int(fold[2]) > 1:
        return Fold(int(fold[1]), int(fold[2]))
    raise UserError(f"holdout: {text!r} is no percentage below 100 (such as 20%), and no part of a whole (such as 2/5)")


def choose_held_out(
    labels: NDArray[np.int64], labelled: NDArray[np.int64], request: Fraction | Fold, seed: int, names: Sequence[str]
) -> NDArray[np.int64]:
    """Those of the `labelled` samples to keep aside, sorted, in the proportions of the classes; drawn by the seed.

    A share leaves each class at least one label, and takes at least one from a class that has two. The parts of a whole
    differ by one sample at most; a class with a single label is then missing where that one is tested on.
    """
    order = generator(seed, "holdout").permutation(labelled)
    order = order[np.argsort(labels[order], kind="stable")]
    if isinstance(request, Fold):
        if request.of > len(labelled):
            raise UserError(f"holdout {request.part}/{request.of}: there are only {len(labelled)} labelled samples")
        return np.sort(order[request.part - 1 :: request.of])
    present, sizes = np.unique(labels[order], return_counts=True)
    taken = [min(int(size) - 1, max(1, round(request * int(size)))) for size in sizes]
    if not any(taken):
        shown = ", ".join(names[int(number)] for number in present[:5])
        raise UserError(f"holdout: each class ({shown}, ...) has a single label, so that none can be kept aside")
    groups = np.split(order, np.cumsum(sizes)[:-1])
    return np.sort(np.concatenate([group[:count] for group, count in zip(groups, taken, strict=True)]))


def without(data: DataSet, labelled: NDArray[np.int64], held: NDArray[np.int64]) -> tuple[DataSet, NDArray[np.int64]]:
    """The data set that tests on those held out, which its pool then lacks, and the labelled ones of the rest."""
    rest = np.setdiff1d(np.arange(len(data.train)), held)
    kept = np.searchsorted(rest, np.setdiff1d(labelled, held))
    train, test = Subset(data.train, rest), Subset(data.train, held)
    return replace(data, train=train, test=test, normalisation=(data.offset, data.scale)), kept
