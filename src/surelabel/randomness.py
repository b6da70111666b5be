"""All randomness: (seed, purpose, step, position in the global batch) -> draws. Never of rank, device or history.

A draw is made by a counter-based generator (Philox) whose 128-bit key is a hash of what the draw is for. Nothing is
carried from step to step, so resuming replays nothing; and row p of a draw depends on p alone, not on how many rows
were drawn, so that a batch split over several processes sees what one process would.
"""

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


# A large order is worth keeping; small ones, of which PAWS has one for each class, are made quickly.
_kept_order = lru_cache(maxsize=4)(_order)
LARGE = 4096


def sample_order(seed: int, purpose: str, step: int, batch: int, size: int) -> NDArray[np.int64]:
    """Which of `size` samples make up the batch of this step [batch].

    Passes over the samples follow one another without a gap, each without replacement and in an order of its own that
    is a function of (seed, purpose, number of the pass).
    """
    positions = np.arange(step * batch, (step + 1) * batch)
    passes, places = np.divmod(positions, size)
    chosen = np.empty(batch, dtype=np.int64)
    order = _order if size < LARGE else _kept_order
    for number in np.unique(passes):
        here = passes == number
        chosen[here] = order(seed, purpose, size, int(number))[places[here]]
    return chosen
