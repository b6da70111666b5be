"""Which training samples count as labelled. The unlabelled pool needs no choice: it is every training image."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

PART = 2**16
LabelCount = int | Fraction | Literal["all"]
"""How many labels: a number over all classes, a share of each class (exact, as 29 % of 100 must be 29), or all."""


def parse_labels(text: str | int) -> LabelCount:
    """`250`, `"250"`, `"10%"` or `"all"`."""
    written = str(text).strip()
    if written == "all":
        return "all"
    if re.fullmatch(r"[0-9]{1,12}", written) and int(written) > 0:
        return int(written)
    percentage = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,12})?) ?%", written)
    if percentage and 0 < Fraction(percentage[1]) <= 100:
        return Fraction(percentage[1]) / 100
    raise UserError(
        f"labels: {written!r} is no number from 1 (such as 250), no percentage up to 100% (such as 10%), and not all"
    )


def draw_labelled(
    labels: NDArray[np.int64],
    n_classes: int,
    request: LabelCount,
    seed: int,
    class_counts: tuple[int, ...] | None = None,
    names: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """The samples whose labels are used, as sorted indices [n], drawn at random by `seed` among the labelled ones.

    A number is shared equally by the classes; what is left over goes to some of them, one each, in a seeded order. A
    share is of each class, rounded down, and at least one; of `class_counts` where these are given. A larger request
    with the same seed contains the smaller. `names` of the classes make errors easier to read.
    """
    # Part by part: of a large pool mapped from a file, few samples may have labels.
    starts = range(0, max(1, len(labels)), PART)
    labelled = np.concatenate([start + np.flatnonzero(labels[start : start + PART] >= 0) for start in starts])
    if not len(labelled):
        raise UserError("no training sample has a label: at least one of each class is needed")
    if request == "all":
        return labelled
    random = generator(seed, "labels")
    order = random.permutation(n_classes)
    # Grouping by a stable sort costs one pass, where a search for each class would cost one pass a class.
    groups = labelled[np.argsort(labels[labelled], kind="stable")]
    sizes = np.bincount(labels[labelled], minlength=n_classes)
    if isinstance(request, Fraction):
        wanted = [max(1, int(request * int(size))) for size in (sizes if class_counts is None else class_counts)]
    else:
        wanted = _equal_parts(request, order)
    _check_enough(wanted, sizes, request, order, names or [str(number) for number in range(n_classes)])
    members = np.split(groups, np.cumsum(sizes)[:-1])
    # The whole class is shuffled however many are taken, so that a smaller draw is the start of a larger one.
    drawn = [random.permutation(group)[:count] for group, count in zip(members, wanted, strict=True)]
    return np.sort(np.concatenate(drawn))


def _equal_parts(number: int, order: NDArray[np.int64]) -> list[int]:
    """`number` shared by the classes, the remainder by the first classes in `order`."""
    each, left = divmod(number, len(order))
    parts = np.full(len(order), each)
    parts[order[:left]] += 1
    return [int(part) for part in parts]


def _check_enough(
    wanted: list[int], sizes: NDArray[np.int64], request: int | Fraction, order: NDArray[np.int64], names: Sequence[str]
) -> None:
    if not sizes.all():
        name = names[int(np.argmin(sizes))]
        raise UserError(f"class {name} has no labelled sample: label some, or leave it out of the classes")
    smallest = int(sizes.min())
    # One more for each class in order, until the turn of a class that has no more.
    largest = smallest * len(sizes) + int(np.argmax(sizes[order] == smallest))
    if isinstance(request, int) and request < len(sizes):
        raise UserError(f"{request} labels are too few for {len(sizes)} classes: ask for {len(sizes)} to {largest}")
    short = np.array(wanted) > sizes
    if short.any():
        first = int(np.argmax(short))
        advice = (
            f"at most {largest} labels can be drawn" if isinstance(request, int) else "ask for a smaller percentage"
        )
        raise UserError(
            f"class {names[first]} has {sizes[first]} labelled samples, but {wanted[first]} are asked for: {advice}"
        )
