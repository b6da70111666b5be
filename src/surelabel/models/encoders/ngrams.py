"""The encoder of texts that needs no download: weighted counts of words and letters, reduced to their main directions.

It knows nothing but the pool that it is fitted to: two texts are alike as far as they share words, pairs of words and
runs of four letters. N-grams are known by their hashes, so that no word of a text is stored.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from surelabel.config.encoders import NGRAMS
from surelabel.models.encoders.base import Batch, Encoder, Reads
from surelabel.utils.errors import UserError

KINDS = (("word", (1, 2)), ("char_wb", (4, 4)))  # chosen on texts that are in no table (docs/text.md)
HASHES = 2**20  # of each kind
MOST = 2**15  # n-grams of each kind that are kept, the most frequent
DIMENSIONS = 256
BATCH = 1000  # texts whose counts are in memory together
FITTED = 20_000  # texts that it is fitted to; of a larger pool, some that are evenly spread


class Unfitted(Encoder):
    """The encoder before it has seen a pool."""

    name, fingerprint, dimensions, preprocessing = NGRAMS, "", 0, None
    reads: Reads = "texts"

    def fitted(self, texts: Sequence[str]) -> Encoder:
        return learn(texts)

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        raise UserError(f"encoder {NGRAMS} must be fitted to a pool of texts first")


def opened(*_: Any) -> Encoder:
    return Unfitted()


class Ngrams(Encoder):
    """Texts -> features [n, D]: the counts of each kind, weighted (tf-idf) and of length one, on D directions.

    The n-grams of the pool that count are `kept` [V], sorted; those of the second kind have numbers from `HASHES` on.
    The rarer one is, the larger its weight [V]. `directions` are [V, D].
    """

    name, preprocessing, ranked = NGRAMS, None, True
    reads: Reads = "texts"

    def __init__(self, kept: NDArray[np.int64], weights: NDArray[np.float32], directions: NDArray[np.float16]) -> None:
        if directions.ndim != 2 or not kept.shape == weights.shape == directions.shape[:1]:
            raise ValueError(f"its parts have the shapes {kept.shape}, {weights.shape} and {directions.shape}")
        self.kept, self.weights, self.directions = kept, weights, directions
        self.dimensions = directions.shape[1]
        digest = blake2b(digest_size=16)
        for values in self.tensors().values():
            digest.update(values.tobytes())
        self.fingerprint = digest.hexdigest()

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        texts, directions = list(map(str, batch)), self.directions.astype(np.float32)
        parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        rows = [weighted(counted(part)[:, self.kept], self.kept, self.weights) @ directions for part in parts]
        return np.concatenate(rows).astype(np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"kept": self.kept, "weights": self.weights, "directions": self.directions}


def learn(texts: Sequence[str]) -> Ngrams:
    """The encoder fitted to these texts, always the same."""
    step = -(-len(texts) // FITTED)
    counts = _in_batches(texts[::step])
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.sort(np.concatenate([_frequent(documents, kind * HASHES) for kind in range(len(KINDS))]))
    if len(kept) < 2:
        raise UserError(
            f"encoder {NGRAMS} finds no two words that several texts share: give more texts, or another encoder"
        )
    weights = (np.log((1 + counts.shape[0]) / (1 + documents[kept])) + 1).astype(np.float32)
    rows = weighted(counts[:, kept], kept, weights)
    size = min(DIMENSIONS, *(side - 1 for side in rows.shape))
    directions = TruncatedSVD(size, random_state=0).fit(rows).components_.T.astype(np.float16)
    return Ngrams(kept, weights, np.ascontiguousarray(directions))


def counted(texts: Sequence[str]) -> csr_array:
    """How often each n-gram is in each text [n, kinds × HASHES]."""
    kinds = [
        HashingVectorizer(analyzer=of, ngram_range=lengths, n_features=HASHES, norm=None, alternate_sign=False)
        for of, lengths in KINDS
    ]
    return csr_array(hstack([kind.transform(texts) for kind in kinds], format="csr"))


def weighted(counts: csr_array, kept: NDArray[np.int64], weights: NDArray[np.float32]) -> csr_array:
    """Counts [n, V] as log(count) + 1, times their weights; those of a kind have the same length in each text."""
    counts.data = (1 + np.log(counts.data)) * weights[counts.indices]
    ends = np.searchsorted(kept, np.arange(len(KINDS) + 1) * HASHES)
    kinds = [counts[:, first:last] for first, last in pairwise(ends) if last > first]
    return csr_array(hstack([normalize(kind, copy=False) for kind in kinds], format="csr"))


def _in_batches(texts: Sequence[str]) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack([counted(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]))


def _frequent(documents: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """The n-grams of a kind that are in two texts or more, at most the `MOST` that are in most of them."""
    mine = documents[first : first + HASHES]
    order = np.argsort(-mine, kind="stable")[:MOST]
    return first + order[mine[order] > 1]
