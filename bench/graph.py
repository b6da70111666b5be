"""The graph of nearest neighbours that `sure` propagates labels on, beside approximate ones; one thread.

    CIFAR_DIR=DIR python -m bench graph

Rows are 256 components of features of CIFAR-10's test pictures, drawn with replacement, each with noise of half a std.
Recall is the share of a row's ten true neighbours that are found, over 500 rows. Approximate graphs are faiss's, if
faiss-cpu is installed (it is no dependency); they are timed without what makes the graph of the neighbours.
"""

import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bench.timing import Row
from surelabel.methods.propagation import NEIGHBOURS, neighbour_graph
from surelabel.models.backbones.projection import principal_components
from surelabel.studies.trust_cells import samples

SIZES = (16_000, 50_000, 100_000)
Rows = NDArray[np.float32]


def run() -> Iterator[Row]:
    if not (folder := os.environ.get("CIFAR_DIR")):
        return
    torch.set_num_threads(1)
    features = torch.tensor(samples("cifar10", folder)[0])
    scaled = (features - features.mean(0)) / features.std(0).clamp_min(1e-6)
    known = (scaled @ principal_components(scaled, 256, True)).numpy()
    for size in SIZES:
        random = np.random.default_rng(0)
        noise = random.standard_normal((size, known.shape[1]), dtype=np.float32)
        rows = known[random.integers(len(known), size=size)] + 0.5 * known.std(0) * noise
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        with threadpool_limits(1):
            start = time.process_time()
            neighbour_graph(rows)
            yield Row(f"{size:,} rows: exact", time.process_time() - start, "CPU s")
            if find_spec("faiss"):
                yield from _approximate(rows, random.choice(size, 500, replace=False))


def _approximate(rows: Rows, some: NDArray[np.int64]) -> Iterator[Row]:
    import faiss

    faiss.omp_set_num_threads(1)
    cosine = rows[some] @ rows.T
    cosine[np.arange(len(some)), some] = -np.inf
    truth = torch.from_numpy(cosine).topk(NEIGHBOURS).indices.numpy()
    makers: dict[str, Callable[[], Any]] = {
        "HNSW": lambda: faiss.index_factory(rows.shape[1], "HNSW16", faiss.METRIC_INNER_PRODUCT),
        "inverted lists": lambda: faiss.index_factory(rows.shape[1], "IVF256,Flat", faiss.METRIC_INNER_PRODUCT),
    }
    for name, make in makers.items():
        start = time.process_time()
        index = make()
        index.train(rows[:10_000])
        index.add(rows)
        if name == "inverted lists":
            index.nprobe = 16
        found = index.search(rows, NEIGHBOURS + 1)[1][some]
        seconds = time.process_time() - start
        hits = [np.isin(mine, theirs).sum() for mine, theirs in zip(truth, found, strict=True)]
        yield Row(f"{len(rows):,} rows: {name}", seconds, "CPU s")
        yield Row(f"{len(rows):,} rows: {name}, recall", float(np.mean(hits)) / NEIGHBOURS, "of the true neighbours")
