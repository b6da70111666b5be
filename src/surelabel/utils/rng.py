"""All random numbers, as functions of (seed, purpose, step, position in the global batch).

They never depend on rank, device or history. Each draw has its own counter-based generator (Philox),
whose 128-bit key is a hash of its purpose. No state is carried from step to step, so resuming
replays nothing. Row p of a draw depends on p, not on the number of rows, so a batch that is split
over several processes gets the same numbers as in one.
"""

import math
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """The generator of (seed, purpose, step)."""
    key = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


def uniforms(seed: int, purpose: str, step: int, rows: int, columns: int) -> NDArray[np.float32]:
    """Uniform draws from [0, 1), one row per position in the global batch: [rows, columns]."""
    # Drawn as float32: a float64 just below one would round up to 1.0.
    return generator(seed, purpose, step).random((rows, columns), dtype=np.float32)


def _order(seed: int, purpose: str, size: int, number: int) -> NDArray[np.int64]:
    return generator(seed, purpose, number).permutation(size)


# Orders are cached for the steps of a pass. PAWS has a small one per class.
LARGE = 4096
_kept_order = lru_cache(maxsize=4)(_order)
_kept_small_order = lru_cache(maxsize=2048)(_order)
# Beyond this many samples an order is computed position by position instead of stored.
MOST_STORED = 2**17
# Samples on disk are shuffled within windows of this many, made of short blocks from everywhere.
WINDOW = 2**14
TURNS = 4


def sample_order(seed: int, purpose: str, step: int, batch: int, size: int, block_size: int = 1) -> NDArray[np.int64]:
    """The indices, out of `size` samples, of the batch of this step [batch].

    Each pass over the samples is without replacement, in an order that depends on (seed, purpose,
    number of the pass); the next pass follows without a gap. With a `block_size` above one, blocks
    of neighbouring samples are shuffled, then the samples within a window of blocks, so that samples
    which are read at about the same time lie together on disk.
    """
    positions = np.arange(step * batch, (step + 1) * batch)
    passes, places = np.divmod(positions, size)
    chosen = np.empty(batch, dtype=np.int64)
    for number in np.unique(passes):
        here = passes == number
        chosen[here] = _in_pass(seed, purpose, int(number), places[here], size, block_size)
    return chosen


def _in_pass(
    seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int, block_size: int
) -> NDArray[np.int64]:
    if block_size > 1 and size > WINDOW:
        return _by_blocks(seed, purpose, number, places, size, block_size)
    if size > MOST_STORED:
        return shuffled(seed, purpose, number, places, size)
    order = _kept_small_order if size < LARGE else _kept_order
    return order(seed, purpose, size, number)[places]


def _by_blocks(
    seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int, block_size: int
) -> NDArray[np.int64]:
    """Shuffle the blocks, then the samples within each window of blocks.

    Each pass cuts the ring of samples into blocks at another point, so that no neighbours always
    stay together, and the few samples that do not fill a block are different ones each time.
    """
    moved = np.empty_like(places)
    for window in np.unique(places // WINDOW):
        here = places // WINDOW == window
        start, end = window * WINDOW, min((window + 1) * WINDOW, size)
        order = _kept_order(seed, f"{purpose}, window {window}", int(end - start), number)
        moved[here] = start + order[places[here] - start]
    blocks, within = np.divmod(moved, block_size)
    whole = blocks < size // block_size
    blocks[whole] = shuffled(seed, f"{purpose}, runs", number, blocks[whole], size // block_size)
    cut = int(generator(seed, f"{purpose}, cut", number).integers(size))
    return (blocks * block_size + within + cut) % size


def shuffled(seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """These positions under a random permutation of `size`, which is never stored as a whole.

    A Feistel network: a position is two digits (left, right), and each in turn is shifted by a hash
    of the other. Each turn is invertible, so no two positions collide. The few results beyond `size`
    go through it again.
    """
    if size < 2:
        return places.copy()
    columns = math.isqrt(size - 1) + 1
    rows = -(-size // columns)
    keys = generator(seed, purpose, number).integers(2**64, size=(TURNS, 2), dtype=np.uint64)
    chosen, beyond = places.copy(), np.arange(len(places))
    while len(beyond):
        left, right = np.divmod(chosen[beyond].astype(np.uint64), np.uint64(columns))
        for one, other in keys:
            left = (left + _hash(right ^ one) % np.uint64(rows)) % np.uint64(rows)
            right = (right + _hash(left ^ other) % np.uint64(columns)) % np.uint64(columns)
        chosen[beyond] = (left * np.uint64(columns) + right).astype(np.int64)
        beyond = beyond[chosen[beyond] >= size]
    return chosen


def _hash(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
