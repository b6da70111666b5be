"""Label propagation (Zhou et al., 2004): labels spread along a graph of nearest neighbours."""

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from surelabel.models.members_head import LEAST

NEIGHBOURS = 10
POWER = 3  # of the cosine that weights an edge
ALPHA = 0.97  # share that a sample takes from its neighbours
STEPS = 40
BLOCK, MOST = 1024, 2**26  # rows whose similarities are in memory at a time, and how many of these at most


def neighbour_graph(rows: NDArray[np.float32], neighbours: int = NEIGHBOURS) -> scipy.sparse.csr_array:
    """D^-1/2 (A + A') D^-1/2 [N, N], where A has cos^3 of each row's nearest others; memory is linear in N."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    count = min(neighbours, len(rows) - 1)
    index = np.empty((len(rows), count), dtype=np.int64)
    weight = np.empty((len(rows), count), dtype=np.float32)
    size = max(1, min(BLOCK, MOST // len(rows)))
    for start in range(0, len(rows), size):
        block = slice(start, min(start + size, len(rows)))
        cosine = torch.from_numpy(unit[block] @ unit.T)
        cosine.diagonal(start).fill_(-torch.inf)  # not its own neighbour
        nearest = cosine.topk(count, sorted=False)  # seven times as fast as numpy's argpartition
        index[block] = nearest.indices.numpy()
        weight[block] = nearest.values.numpy().clip(min=1e-6) ** POWER
    edges = (weight.ravel(), index.ravel(), np.arange(0, index.size + 1, count))
    one_way = scipy.sparse.csr_array(edges, shape=(len(rows), len(rows)))
    graph = one_way + one_way.T
    scale = scipy.sparse.diags_array(graph.sum(axis=1) ** -0.5)
    return (scale @ graph @ scale).tocsr()


def propagate(
    graph: scipy.sparse.csr_array, index: NDArray[np.int64], labels: NDArray[np.int64], classes: int
) -> NDArray[np.float64]:
    """The probabilities [N, K] of all samples when those at `index` have these labels."""
    mass = spread(graph, index, labels, classes)
    return as_probs(mass, mass.sum(0, dtype=np.float64), smoothed_shares(labels, classes))


def spread(
    graph: scipy.sparse.csr_array, index: NDArray[np.int64], column: NDArray[np.int64], columns: int
) -> NDArray[np.float32]:
    """The mass [N, columns] that reaches each sample when the one at index i is a source of its column.

    It is linear: what several sources send is the sum of what each sends.
    """
    seeds = np.zeros((graph.shape[0], columns), dtype=np.float32)
    seeds[index, column] = 1
    found = seeds
    for _ in range(STEPS):
        found = ALPHA * (graph @ found) + (1 - ALPHA) * seeds
    return found


def as_probs(mass: NDArray[np.float32], total: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities [N, K] from the mass of each class, whose `total` [K] is over all samples of the pool.

    Each class's mass is first brought to its share [K]: otherwise a class whose labels lie in a dense
    region takes over.
    """
    probs = mass.astype(np.float64) * (shares / np.maximum(total, 1e-12))
    probs /= np.maximum(probs.sum(1, keepdims=True), 1e-300)
    probs += LEAST
    return np.asarray(probs / probs.sum(1, keepdims=True))


def smoothed_shares(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """The share of each class, (n_c + 1) / (n + K) [K]."""
    return np.asarray((np.bincount(labels, minlength=classes) + 1) / (len(labels) + classes))
