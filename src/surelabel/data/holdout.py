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
    labels: NDArray[np.int64],
    labelled: NDArray[np.int64],
    request: Fraction | Fold,
    seed: int,
    names: Sequence[str],
    groups: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Those of the `labelled` samples to keep aside, sorted, in the proportions of the classes; drawn by the seed.

    A share leaves each class at least one label, and takes at least one from a class that has two. The parts of a whole
    differ by one sample at most; a class with a single label is then missing where that one is tested on. With `groups`
    [N] of all samples, whole groups are taken, and so the shares and parts are only about equal.
    """
    if not len(labelled):
        raise UserError("holdout: all labels are of suggested samples, which are hard ones: label some at random")
    order = generator(seed, "holdout").permutation(labelled)
    order = order[np.argsort(labels[order], kind="stable")]
    if isinstance(request, Fold):
        firsts = order if groups is None else order[np.sort(np.unique(groups[order], return_index=True)[1])]
        if request.of > len(firsts):
            kind = "labelled samples" if groups is None else "groups with labelled samples"
            raise UserError(f"holdout {request.part}/{request.of}: there are only {len(firsts)} {kind}")
        chosen = firsts[request.part - 1 :: request.of]
        return np.sort(chosen if groups is None else labelled[np.isin(groups[labelled], groups[chosen])])
    if groups is not None:
        return np.sort(order[_whole_groups(labels[order], groups[order], float(request))])
    present, sizes = np.unique(labels[order], return_counts=True)
    taken = [min(int(size) - 1, max(1, round(request * int(size)))) for size in sizes]
    if not any(taken):
        shown = ", ".join(names[int(number)] for number in present[:5])
        raise UserError(f"holdout: each class ({shown}, ...) has a single label, so that none can be kept aside")
    by_class = np.split(order, np.cumsum(sizes)[:-1])
    return np.sort(np.concatenate([mine[:count] for mine, count in zip(by_class, taken, strict=True)]))


def _whole_groups(labels: NDArray[np.int64], groups: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Which of n samples to hold out: groups that bring the classes nearer to their share, while each keeps a label."""
    _, labels = np.unique(labels, return_inverse=True)
    left, taken = np.bincount(labels), list[int]()
    wanted = np.minimum(left - 1, np.maximum(1, np.rint(share * left)))
    for group in dict.fromkeys(groups.tolist()):
        counts = np.bincount(labels[groups == group], minlength=len(left))
        nearer = np.abs(wanted - counts).sum() < np.abs(wanted).sum()
        if nearer and (left[counts > 0] > counts[counts > 0]).all():
            left, wanted = left - counts, wanted - counts
            taken.append(group)
    if not taken:
        raise UserError(
            f"holdout {share:.0%}: no group of rows is small enough to be kept aside while each class keeps a label: "
            "hold out a larger share, or a part such as 1/2"
        )
    return np.isin(groups, taken)


def without(data: DataSet, labelled: NDArray[np.int64], held: NDArray[np.int64]) -> tuple[DataSet, NDArray[np.int64]]:
    """The data set that tests on those held out, which its pool then lacks, and the labelled ones of the rest.

    The rest of a group stays in the pool, unlabelled.
    """
    rest, learnt = np.setdiff1d(np.arange(len(data.train)), held), np.setdiff1d(labelled, held)
    groups = data.train.groups
    if groups is not None:
        learnt = learnt[~np.isin(groups[learnt], groups[held])]
    kept = np.searchsorted(rest, learnt)
    train, test = Subset(data.train, rest), Subset(data.train, held)
    return replace(data, train=train, test=test, normalisation=(data.offset, data.scale)), kept
