"""Groups of samples that belong together, such as the rows of one patient: each group has a number."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def group_numbers(names: NDArray[np.generic], missing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The group [N] of each sample; those of one name share one, and each with a missing name is its own."""
    groups = np.empty(len(names), dtype=np.int64)
    distinct, groups[~missing] = np.unique(names[~missing], return_inverse=True)
    groups[missing] = len(distinct) + np.arange(missing.sum())
    return groups


def joined(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The groups [N] of samples that share a group of either kind, directly or through others."""
    _, a = np.unique(first, return_inverse=True)
    _, b = np.unique(second, return_inverse=True)
    size = len(first)  # there are no more groups of a kind
    links = coo_array((np.ones(size), (a, size + b)), shape=(2 * size, 2 * size))
    return np.asarray(connected_components(links, directed=False)[1][a], dtype=np.int64)
