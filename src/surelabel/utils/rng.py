"""All randomness: (seed, purpose, step, position in the global batch) -> draws. Never of rank, device or history.

A draw is made by a counter-based generator (Philox) whose 128-bit key is a hash of what the draw is for. Nothing is
carried from step to step, so resuming replays nothing; and row p of a draw depends on p alone, not on how many rows
were drawn, so that a batch split over several processes sees what one process would.
"""

import math
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """A generator of its own for (seed, purpose, step)."""
    key = blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


def uniforms(seed: int, purpose: str, step: int, rows: int, columns: int) -> NDArray[np.float32]:
    """U[0, 1) draws [rows, columns] in float32, one row for each position in the global batch."""
    # float32 directly: a float64 just below one would round up to 1.0 and fall outside the half-open range.
    return generator(seed, purpose, step).random((rows, columns), dtype=np.float32)


def _order(seed: int, purpose: str, size: int, number: int) -> NDArray[np.int64]:
    return generator(seed, purpose, number).permutation(size)


# Orders are kept for the steps of a pass: of small ones PAWS has one for each class.
LARGE = 4096
_kept_order = lru_cache(maxsize=4)(_order)
_kept_small_order = lru_cache(maxsize=2048)(_order)
# Beyond this many samples an order is computed place by place: a stored one would grow with the pool.
MOST_STORED = 2**17
# Samples that are read from a disk are shuffled within a window of this many, made of short runs from everywhere.
WINDOW = 2**14
TURNS = 4


def sample_order(seed: int, purpose: str, step: int, batch: int, size: int, run: int = 1) -> NDArray[np.int64]:
    """Which of `size` samples make up the batch of this step [batch].

    Passes over the samples follow one another without a gap, each without replacement and in an order of its own that
    is a function of (seed, purpose, number of the pass). With `run` above one, samples are taken within a window of
    whole runs of so many neighbours, so that what is read at about the same time lies together.
    """
    positions = np.arange(step * batch, (step + 1) * batch)
    passes, places = np.divmod(positions, size)
    chosen = np.empty(batch, dtype=np.int64)
    for number in np.unique(passes):
        here = passes == number
        chosen[here] = _in_pass(seed, purpose, int(number), places[here], size, run)
    return chosen


def _in_pass(seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int, run: int) -> NDArray[np.int64]:
    if run > 1 and size > WINDOW:
        return _by_runs(seed, purpose, number, places, size, run)
    if size > MOST_STORED:
        return shuffled(seed, purpose, number, places, size)
    order = _kept_small_order if size < LARGE else _kept_order
    return order(seed, purpose, size, number)[places]


def _by_runs(seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int, run: int) -> NDArray[np.int64]:
    """The runs in random order, then all samples of a window of runs in random order.

    The ring of samples is cut into runs at another point in each pass, so that no two neighbours stay together and
    the few samples that make no whole run are others each time.
    """
    moved = np.empty_like(places)
    for window in np.unique(places // WINDOW):
        here = places // WINDOW == window
        start, end = window * WINDOW, min((window + 1) * WINDOW, size)
        order = _kept_order(seed, f"{purpose}, window {window}", int(end - start), number)
        moved[here] = start + order[places[here] - start]
    runs, within = np.divmod(moved, run)
    whole = runs < size // run
    runs[whole] = shuffled(seed, f"{purpose}, runs", number, runs[whole], size // run)
    cut = int(generator(seed, f"{purpose}, cut", number).integers(size))
    return (runs * run + within + cut) % size


def shuffled(seed: int, purpose: str, number: int, places: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where a shuffle of `size` samples puts these places, without making the whole of it.

    A Feistel network: a place is two digits (left, right), and each is moved round by a hash of the other, in turns;
    each turn can be undone, so that no two places meet. The few results beyond `size` go through it again.
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
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
