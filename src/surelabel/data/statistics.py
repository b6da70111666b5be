"""The mean and the standard deviation of each channel of a source."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from surelabel.data.source import Source

Normalisation = tuple[tuple[float, ...], tuple[float, ...]]  # offset and scale of each channel
# Large enough to be quick, small enough that a memory-mapped array never has to fit in memory.
CHUNK_BYTES = 2**24


def channel_statistics(source: "Source", most: int = 10_000) -> Normalisation:
    """The mean and the standard std of each channel, over at most `most` samples evenly spread over the source.

    A constant channel gets the std 1, so that dividing by it is harmless.
    """
    used = np.unique(np.linspace(0, len(source) - 1, min(most, len(source))).astype(np.int64))
    # Sums of differences from one pixel lose no digits to a large mean, and are exactly 0 for a constant channel.
    within = len(source.shape) - 1  # axes inside a channel: none in a table
    origin = source.samples(used[:1])[(slice(None), slice(None), *[slice(1)] * within)].astype(np.float64)
    axes = "nc" + "hwdefg"[:within]
    total, squares = np.zeros(source.shape[0]), np.zeros(source.shape[0])
    for part in chunks(range(len(used)), source.shape):
        difference = source.samples(used[part.start : part.stop]) - origin
        total += difference.sum(axis=(0, *range(2, difference.ndim)))
        squares += np.einsum(f"{axes},{axes}->c", difference, difference)
    pixels = len(used) * int(np.prod(source.shape[1:]))
    mean = total / pixels
    std = np.sqrt(np.maximum(squares / pixels - mean**2, 0.0))
    std[std == 0] = 1.0
    return tuple((origin.reshape(-1) + mean).tolist()), tuple(std.tolist())


def chunks(whole: range, shape: tuple[int, ...]) -> Iterator[range]:
    """Parts of `whole`, small enough for samples of this shape to be computed with in float64."""
    size = max(1, CHUNK_BYTES // (8 * int(np.prod(shape))))
    for start in range(0, len(whole), size):
        yield whole[start : start + size]
