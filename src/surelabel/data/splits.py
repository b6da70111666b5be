"""Draw the labelled training samples. The unlabelled pool is always every training sample."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

CHUNK = 2**16
LabelCount = int | Fraction | Literal["all"]
"""How many labels: a total, a fraction of each class (exact, since 29 % of 100 must be 29), or all."""


def parse_labels(text: str | int) -> LabelCount:
    """Parse `250`, `"250"`, `"10%"` or `"all"`."""
    written = str(text).strip()
    if written == "all":
        return "all"
    if re.fullmatch(r"[0-9]{1,12}", written) and int(written) > 0:
        return int(written)
    percentage = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,12})?) ?%", written)
    if percentage and 0 < Fraction(percentage[1]) <= 100:
        return Fraction(percentage[1]) / 100
    raise UserError(f"labels: {written!r} is not possible: give a number (250), a percentage (10%) or all")


def draw_labelled(
    labels: NDArray[np.int64],
    n_classes: int,
    request: LabelCount,
    seed: int,
    class_counts: tuple[int, ...] | None = None,
    names: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Draw the samples whose labels are used: sorted indices [n] of samples with a label.

    A total is divided equally between the classes; the remainder goes to some of them, one each,
    in a seeded order. A fraction is of each class (of `class_counts` if given), rounded down, at
    least one. A larger request with the same seed contains the smaller. `names` are for errors.
    """
    # In chunks: the labels may be mapped from a large file.
    starts = range(0, max(1, len(labels)), CHUNK)
    labelled = np.concatenate([start + np.flatnonzero(labels[start : start + CHUNK] >= 0) for start in starts])
    if not len(labelled):
        raise UserError("no training sample has a label: label at least one of each class")
    if request == "all":
        return labelled
    random = generator(seed, "labels")
    order = random.permutation(n_classes)
    # Group by a stable sort: one pass instead of one pass per class.
    groups = labelled[np.argsort(labels[labelled], kind="stable")]
    sizes = np.bincount(labels[labelled], minlength=n_classes)
    if isinstance(request, Fraction):
        wanted = [max(1, int(request * int(size))) for size in (sizes if class_counts is None else class_counts)]
    else:
        wanted = _equal_parts(request, order)
    _check_enough(wanted, sizes, request, order, names or [str(number) for number in range(n_classes)])
    members = np.split(groups, np.cumsum(sizes)[:-1])
    # Shuffle the whole class whatever the count: a smaller draw is then the start of a larger one.
    drawn = [random.permutation(group)[:count] for group, count in zip(members, wanted, strict=True)]
    return np.sort(np.concatenate(drawn))


def _equal_parts(number: int, order: NDArray[np.int64]) -> list[int]:
    """`number` divided equally between the classes; the first in `order` get the remainder."""
    each, left = divmod(number, len(order))
    parts = np.full(len(order), each)
    parts[order[:left]] += 1
    return [int(part) for part in parts]


def _check_enough(
    wanted: list[int], sizes: NDArray[np.int64], request: int | Fraction, order: NDArray[np.int64], names: Sequence[str]
) -> None:
    if not sizes.all():
        name = names[int(np.argmin(sizes))]
        raise UserError(f"class {name} has no labelled sample: label some, or remove the class")
    smallest = int(sizes.min())
    # The remainder goes to the classes in order, up to the first that has no samples left.
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
            f"class {names[first]} has {sizes[first]} labelled samples, but {wanted[first]} are needed: {advice}"
        )
