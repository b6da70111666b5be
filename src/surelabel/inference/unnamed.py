"""Whether a pool holds kinds of things that no label names.

Labels drawn at random are a random subset of the pool. So the parts of the pool, found without a look at the labels,
hold as many of them as chance has it; a part with too few may be of a kind that no label names. How few the emptiest
part has by chance is told by labels that are drawn again in the same way. Shapes: N samples, S rates, R parts.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.stats import binom
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from surelabel.data.drawn import drawn_per_class
from surelabel.inference.suggest import NothingUnlabelled
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.propagation import neighbour_graph
from surelabel.training.evaluate import predict
from surelabel.utils.rng import generator

RISK = 0.08  # of an alarm where the labels name all kinds
REDRAWN = 500  # times that labels are drawn again
NEVER = 1e-4  # rate over the largest, below which a sample is not drawn
EXPLAINED = 0.05  # chance of so few labels, given their classes, from which on a part is not empty
COMPONENTS = 64
DIRECTIONS = (10, 20)  # of the graph of neighbours
CLUSTERS = (8, 12, 16, 24, 32, 48)
LEAST = 50  # samples that have parts
MOST, MOST_LABELLED = 5000, 1000  # samples looked at: of labels drawn at random, any random ones are such again
SHOWN = 2  # samples named

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """Labels drawn by each of S rates [N, S], which need not sum to one: so many (`counts` [S])."""

    rates: NDArray[np.floating]
    counts: Index

    @property
    def expected(self) -> NDArray[np.float64]:
        """The expected number of labels of each sample [N]."""
        return np.asarray((self.rates / np.maximum(self.rates.sum(0), 1e-300)) @ self.counts)

    def again(self, random: np.random.Generator) -> NDArray[np.float32]:
        """Ones [N, REDRAWN] where a label is, when they are drawn again and again."""
        drawn = np.zeros((len(self.rates), REDRAWN), dtype=np.float32)
        for rate, count in zip(self.rates.T, self.counts, strict=True):
            likely = int((rate > NEVER * rate.max()).sum())
            some = np.argsort(-rate, kind="stable")[: max(likely, count)]
            # Without replacement: the first of the arrivals.
            waits = random.standard_exponential((REDRAWN, len(some)), dtype=np.float32)
            waits /= np.maximum(rate[some], 1e-30).astype(np.float32)
            drawn[some[np.argpartition(waits, count - 1)[:, :count]], np.arange(REDRAWN)[:, None]] = 1
        return drawn


@dataclass(frozen=True)
class Parts:
    """Parts of a pool, which overlap: `member` [R, N] is one where a sample belongs to a part."""

    member: scipy.sparse.csr_array

    def log_chance(self, labels: NDArray[np.float32], draw: Draw) -> NDArray[np.float64]:
        """The log of the chance [R, T] that a part has so few labels, or fewer; labels [N, T] are ones and zeros."""
        count = int(draw.counts.sum())
        share = np.minimum(self.member @ draw.expected / count, 1)
        inside = np.minimum(np.rint(self.member @ labels).astype(np.int64), count)
        return np.asarray(np.take_along_axis(binom.logcdf(np.arange(count + 1), count, share[:, None]), inside, 1))


def find_parts(rows: NDArray[np.float32], seed: int = 0) -> Parts:
    """Clusters of rows [N, d], and of their graph of neighbours, at several scales."""
    rows = rows - rows.mean(0)
    left, sizes, _ = randomized_svd(rows, min(COMPONENTS, *rows.shape), random_state=seed)
    components = (left * sizes).astype(np.float32)
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows may be the same
        for points in (components, *graph_directions(components)):
            unit = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
            for count in sorted({min(clusters, len(rows) // 4) for clusters in CLUSTERS}):
                of = KMeans(count, n_init=2, random_state=seed).fit_predict(unit)
                found.append(scipy.sparse.csr_array((np.ones(len(of), np.float32), (of, np.arange(len(of))))))
    return Parts(scipy.sparse.vstack(found).tocsr())


def graph_directions(rows: NDArray[np.float32]) -> list[NDArray[np.float64]]:
    """The smoothest functions [N, k] on the graph of neighbours, for several k (Ng, Jordan and Weiss, 2002)."""
    graph = neighbour_graph(rows).astype(np.float64)
    try:
        # Each part that is cut off from the others, as rows of one category may be, has the eigenvalue 1. More exactly,
        # the search would take minutes to tell many such from each other.
        values, vectors = eigsh(graph, k=max(DIRECTIONS), which="LA", v0=np.ones(len(rows)), tol=1e-4, maxiter=500)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
    smoothest = vectors[:, np.argsort(-values)]
    return [smoothest[:, :count] for count in DIRECTIONS if smoothest.shape[1]]


def emptiest_by_chance(parts: Parts, draw: Draw, random: np.random.Generator) -> NDArray[np.float64]:
    """The log of the chance of the emptiest part [REDRAWN], for labels that are drawn again."""
    return np.asarray(parts.log_chance(draw.again(random), draw).min(0))


@dataclass(frozen=True)
class Emptiest:
    """The part that has the fewest labels for its size."""

    risk: float  # how often labels that are drawn again leave a part as empty
    inside: NDArray[np.bool_]  # [N]


def emptiest(
    parts: Parts, labelled: NDArray[np.bool_], draw: Draw, by_class: Draw, by_chance: NDArray[np.float64]
) -> Emptiest:
    """The part with too few labels for how they were drawn, and too few of the classes that its samples look like."""
    labels = labelled[:, None].astype(np.float32)
    chance = parts.log_chance(labels, draw)[:, 0]
    chance[parts.log_chance(labels, by_class)[:, 0] > np.log(EXPLAINED)] = 0
    part = int(chance.argmin())
    risk = (1 + np.sum(by_chance <= chance[part] + 1e-9)) / (1 + len(by_chance))
    return Emptiest(float(risk), parts.member[[part]].toarray()[0] > 0)


@dataclass(frozen=True)
class Unnamed:
    """Samples that are of a kind that no label names, it seems."""

    risk: float  # how often labels that name all kinds would leave such a gap
    index: Index  # of some, in the pool, the most typical first
    names: Sequence[str | int]  # theirs
    count: int  # about how many there are in the pool


def find_unnamed(run: TrainedRun) -> Unnamed | None:
    """The kind of samples that no label of a run seems to name, if there is one; only of samples that are rows."""
    source = run.data.train
    if len(source.shape) != 1:
        return None
    asked = np.zeros(len(source), bool) if source.suggested is None else source.suggested
    random = generator(run.config.seed, "unnamed")
    try:
        unlabelled = run.unlabelled
    except NothingUnlabelled:
        return None
    labelled = run.labelled[~asked[run.labelled]]
    if len(labelled) + len(unlabelled) < LEAST or len(labelled) < 2:
        return None
    labelled = random.permutation(labelled)[:MOST_LABELLED]
    some_unlabelled = random.permutation(unlabelled)[: MOST - len(labelled)]
    # Labels that were asked for are not random, but name what they are.
    others = random.permutation(run.labelled[asked[run.labelled]])[:MOST_LABELLED]
    index = np.sort(np.concatenate([labelled, others, some_unlabelled]))  # so that the order tells no labels
    labels = source.labels[labelled]
    probs = predict(run.network, source, index, run.config.evaluation.batch).probs.double().numpy()
    by_class = Draw(probs[:, np.unique(labels)], np.unique(labels, return_counts=True)[1])
    uniform = Draw(np.ones((len(index), 1)), np.array([len(labelled)]))
    draw = by_class if drawn_per_class(run.config.drawn, labels) else uniform
    rows = (source.samples(index) - np.array(run.data.offset)) / np.array(run.data.scale)
    parts = find_parts(rows.astype(np.float32), run.config.seed)
    known = ~np.isin(index, some_unlabelled)
    found = emptiest(parts, known, draw, by_class, emptiest_by_chance(parts, draw, random))
    if found.risk > RISK:
        return None
    inside = np.flatnonzero(found.inside & ~known)
    typical = inside[np.argsort(np.square(rows[inside] - rows[inside].mean(0)).sum(1), kind="stable")]
    share = len(inside) / len(some_unlabelled) - (found.inside & known).sum() / known.sum()
    count = round(max(share, 0) * len(unlabelled))
    return Unnamed(found.risk, index[typical], source.names(index[typical]), count)


def describe_unnamed(found: Unnamed) -> str:
    """What it means, in sentences."""
    examples = " and ".join(map(str, found.names[:SHOWN]))
    return (
        f"Warning: about {found.count:,} unlabelled samples, such as {examples}, are unlike any labelled one (by "
        f"chance in {found.risk:.1%} of draws of labels). The pool seems to hold a kind of things that no label names, "
        "which is given one of the known classes: all that is said of accuracy and precision holds for samples of the "
        "named classes only. Look at these samples, and label some"
    )
