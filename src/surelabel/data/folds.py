"""Folds of the labels for cross-fitting: each label is predicted by models that have not seen it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from scipy.sparse.csgraph import connected_components

from surelabel.utils.rng import generator
from surelabel.utils.words import words_alone

ALWAYS_SEEN = -1
MANY = 64
BLOCK = 1024  # rows that are compared at a time, so that memory is linear in their number
ALIKE = 0.99  # cosine of near-duplicates, as those of a picture and its copy at another quality


def parts(fold: NDArray[np.int64]) -> NDArray[np.int64]:
    """The folds that have labels."""
    return np.unique(fold[fold != ALWAYS_SEEN])


def draw_folds(
    labels: NDArray[np.int64], folds: int, seed: int = 0, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The fold [n] of each label, from 0; ALWAYS_SEEN where leaving it out would leave its class without a label.

    Classes are spread: folds differ by at most one group in size and, as far as that can be, hold at most one label of
    a class. Samples of one group (near-duplicates, rows of one patient) share a fold.
    """
    groups = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    order = generator(seed, "folds").permutation(groups.max(initial=-1) + 1)
    # Dealt class by class; a group with several classes is dealt with the first of them.
    first = {int(group): int(label) for label, group in sorted(zip(labels, groups, strict=True), reverse=True)}
    dealt = sorted(order.tolist(), key=lambda group: first[group])
    fold = np.empty(len(order), dtype=np.int64)
    fold[dealt] = np.arange(len(dealt)) % folds
    found: NDArray[np.int64] = fold[groups]
    for label in np.unique(labels):
        mine = labels == label
        if len(np.unique(found[mine])) == 1:
            found[np.isin(groups, groups[mine])] = ALWAYS_SEEN
    return found


def near_duplicates(rows: NDArray[np.float32]) -> NDArray[np.int64]:
    """A group [n] for each row [n, d], such that rows which are nearly the same share one.

    Rows of few numbers never do: there, others are as near, or equal, by chance, in the pool as among the labels.
    """
    rows = rows.reshape(len(rows), -1)
    if rows.shape[1] < MANY:
        return np.arange(len(rows))
    centred = rows.astype(np.float64)
    centred = (centred - centred.mean(0)) / np.maximum(centred.std(0), 1e-12)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    blocks = (unit[start : start + BLOCK] @ unit.T > ALIKE for start in range(0, len(unit), BLOCK))
    alike = vstack([csr_array(block) for block in blocks])
    groups: NDArray[np.int64] = connected_components(alike)[1].astype(np.int64)
    return groups


def same_texts(texts: Sequence[str]) -> NDArray[np.int64]:
    """A group [n] for each text; those of the same words in the same order share one. Empty texts are all different."""
    words = [words_alone(text) or f" {number}" for number, text in enumerate(texts)]
    groups: NDArray[np.int64] = np.unique(words, return_inverse=True)[1].astype(np.int64)
    return groups
