"""How far the confidence of a cross-fitted run can be trusted, from its labels alone.

Each label was left out by some members, or by a further run, for which its sample was one of the pool like any other.
What they predict for it is what the run predicts for the pool. Shapes: n labels, N samples of the pool, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import beta

from surelabel.data.label_rows import DRAWN_COLUMN, SUGGESTED
from surelabel.equations import Groups, bin_of, entropy
from surelabel.inference.learners import Joined, pool_of
from surelabel.inference.suggest import LEAST as CANDIDATES
from surelabel.inference.suggest import backbone_features, uncertain_and_diverse
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import fit_powers, join
from surelabel.utils.csv import write_csv
from surelabel.utils.intervals import ENOUGH, Z95, wilson
from surelabel.utils.rng import generator

PRECISION = 0.95  # of the samples to accept, if the user names none
RISK = 0.05  # of a lower bound
MARGIN, Z90 = 0.03, 1.28  # how much less may be right than was asked for, in nine of ten cases
# A threshold is chosen by looking at the whole curve: the bounds hold for all of it together, as if of ten (a test).
LOOKS = 10
DOUBTED = 0.05  # a label is doubted if its class has less than this probability
BINS = 10  # of confidence
DIVERSE = 100  # samples to label that are chosen to differ; the rest are in the order of their entropy


@dataclass(frozen=True)
class LeftOut:
    """Labels and what was predicted for them without knowing them; the powers are those of the other folds."""

    index: NDArray[np.int64]  # [n], in the pool
    labels: NDArray[np.int64]  # [n]
    probs: NDArray[np.float64]  # [n, K]
    rank: NDArray[np.float64]  # [n], the share of the pool that the same learners are as confident of, or more
    weights: NDArray[np.float64]  # [n], of mean 1: how much each counts, where the labels' classes are not the pool's
    variance: float = 1.0  # of a mean over the labels, relative to one over independent predictions

    @property
    def effective(self) -> float:
        """How many labels of equal weight would tell as much."""
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

    @property
    def size(self) -> float:
        """How many labels of equal weight would, if they were independent."""
        return self.effective / self.variance

    @property
    def confidence(self) -> NDArray[np.float64]:
        return np.asarray(self.probs.max(1))

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.probs.argmax(1) == self.labels)

    @property
    def accuracy(self) -> float:
        return float(np.average(self.right, weights=self.weights))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy."""
        return wilson(self.accuracy, self.size)

    @property
    def gap(self) -> tuple[float, float]:
        """Confidence minus accuracy, and the half-width of its 95 % interval."""
        each = self.confidence - self.right
        mean = float(np.average(each, weights=self.weights))
        return mean, Z95 * sqrt(float(np.average((each - mean) ** 2, weights=self.weights)) / max(self.size - 1, 1))

    @property
    def nll(self) -> float:
        return float(-np.average(np.log(self.of_label), weights=self.weights))

    @property
    def of_label(self) -> NDArray[np.float64]:
        """The probability [n] of the class that each label names."""
        return np.asarray(np.maximum(self.probs[np.arange(len(self.labels)), self.labels], 1e-30))

    @property
    def bins(self) -> Groups | None:
        """Bins of confidence [M], for ECE and a reliability diagram; None if there are too few labels for these."""
        if self.effective < ENOUGH:
            return None
        sums = self.weights * [np.ones(len(self.labels)), self.confidence, self.right]
        place = bin_of(torch.from_numpy(self.confidence), BINS)
        return Groups(*torch.zeros(3, BINS, dtype=torch.float64).index_add_(1, place, torch.from_numpy(sums)))

    def unjudged(self, classes: Sequence[str]) -> list[str]:
        """The classes of which no label was left out."""
        return [name for name, (_, of) in zip(classes, self.recall(len(classes)), strict=True) if not of]

    def recall(self, classes: int) -> list[tuple[int, int]]:
        """For each class, how many of its labels were predicted, and how many there are."""
        right = np.bincount(self.labels[self.right], minlength=classes)
        return list(zip(right.tolist(), np.bincount(self.labels, minlength=classes).tolist(), strict=True))

    def doubtful(self) -> NDArray[np.int64]:
        """Places of the labels that look wrong, the least likely first."""
        order = np.argsort(self.of_label, kind="stable")
        return np.asarray(order[self.of_label[order] < DOUBTED])


def left_out(run: TrainedRun) -> LeftOut:
    """The left-out predictions of a run."""
    known = run.learners
    labels, fold, logs, weights = known.labels, known.fold, known.log_probs, known.weights
    probs, rank = np.empty(logs.shape[1:]), np.empty(len(labels))
    for v in np.unique(fold):
        here = fold == v
        powers = fit_powers(logs[:, ~here], labels[~here], known.prior, weights[~here])
        probs[here] = np.exp(join(logs[:, here], powers))
        others = np.sort(np.exp(join(known.pool(v), powers).max(1)))
        rank[here] = 1 - np.searchsorted(others, probs[here].max(1)) / max(len(others), 1)
    return LeftOut(known.index, labels, probs, rank, weights / weights.mean(), known.variance)


@dataclass(frozen=True)
class Accepted:
    """The samples of the pool whose confidence is at least a threshold."""

    count: int
    threshold: float
    precision: float  # expected: the mean confidence
    least: float  # lower bound, with 95 % certainty
    labels: int  # that the bound rests on


@dataclass(frozen=True)
class Trust:
    """What is known about the confidence of a run for its pool."""

    known: LeftOut
    confidence: NDArray[np.float64]  # [N], of the pool
    joined: Joined | None = None  # of two learners
    all_named: bool = True  # whether nothing in the pool is unlike every label; else no precision is promised

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The pool, the most confident first."""
        return np.argsort(-self.confidence, kind="stable")

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """The expected precision [N] of the 1, 2, ..., N most confident samples."""
        return np.asarray(self.confidence[self.order].cumsum() / np.arange(1, len(self.order) + 1))

    def accept(self, precision: float) -> Accepted:
        """The most samples of the pool of which this share should be right.

        A temperature from few labels may be off: so many that, in nine of ten cases, the share is at most `MARGIN`
        less. The standard error is that of the labels which rank as high.
        """
        above = np.searchsorted(np.sort(self.known.rank), np.arange(1, len(self.order) + 1) / len(self.order), "right")
        size = np.maximum(above * self.known.effective / max(len(self.known.labels), 1), 1)
        error = np.sqrt(self.precisions * (1 - self.precisions) / size)
        enough = self.precisions - np.maximum(Z90 * error - MARGIN, 0) >= precision
        return self.first(int(enough.nonzero()[0].max(initial=-1)) + 1)

    def first(self, count: int) -> Accepted:
        """The `count` most confident samples."""
        if not count:
            return Accepted(0, 1.0, 1.0, 0.0, 0)
        threshold = float(self.confidence[self.order[count - 1]])
        # By rank: few members spread their confidence otherwise than all together.
        above = self.known.rank <= count / len(self.order)
        weights, of = self.known.weights[above], int(above.sum())
        size = float(weights.sum() ** 2 / max(np.square(weights).sum(), 1e-12))
        right = size * float(np.average(self.known.right[above], weights=weights)) if of else 0.0
        return Accepted(count, threshold, float(self.precisions[count - 1]), lower_bound(right, size), of)

    def curve(self, points: int = 20) -> list[Accepted]:
        """What accepting 1/points, 2/points, ... of the pool gives."""
        counts = {round(len(self.order) * part / points) for part in range(1, points + 1)} - {0}
        return [self.first(count) for count in sorted(counts)]


def lower_bound(right: float, of: float) -> float:
    """The share that is exceeded with 95 % certainty when `right` of `of` were right (Clopper and Pearson, 1934)."""
    return float(beta.ppf(RISK / LOOKS, right, of - right + 1)) if right else 0.0


def more_labels(trust: Trust, wanted: Accepted, margin: float = 0.05) -> int:
    """About how many more labels it takes until the bound lies within this margin of the expected precision."""
    if wanted.least >= wanted.precision - margin:
        return 0
    share = wanted.labels / len(trust.known.labels) or wanted.count / len(trust.order)
    for of in range(max(wanted.labels, 1), 20_000):
        if lower_bound(round(wanted.precision * of), of) >= wanted.precision - margin:
            return max(1, round(of / share) - len(trust.known.labels))
    return 20_000


def trust(run: TrainedRun) -> Trust:
    """What is known about a run's confidence for its unlabelled samples."""
    known = left_out(run)
    confidence = run.pool_prediction.probs.double().max(1).values.numpy() if len(pool_of(run)) else np.empty(0)
    return Trust(known, confidence, run.learners.joined, run.unnamed is None)


def write_accepted(run: TrainedRun, found: Trust, precision: float, accepted: Path, rest: Path) -> Accepted:
    """Write the samples to accept, the most confident first, and the others, the most useful to label first."""
    chosen = found.accept(precision)
    names, classes = run.data.train.names(run.unlabelled), run.predict_pool().classes
    columns = ["sample", "class", "confidence"]
    write_csv(accepted, columns, ((names[i], classes[i], found.confidence[i]) for i in found.order[: chosen.count]))
    ids = run.data.train.ids
    own: list[tuple[str, ...]] = [()] * len(names) if ids is None else [(one,) for one in ids[run.unlabelled]]
    column = [] if ids is None else ["id"]
    order = to_label(run, found, precision)
    rows = ((n, names[i], *own[i], "", SUGGESTED, classes[i], found.confidence[i]) for n, i in enumerate(order, 1))
    write_csv(rest, ["rank", "sample", *column, "label", DRAWN_COLUMN, "predicted", "confidence"], rows)
    return chosen


def to_label(run: TrainedRun, found: Trust, precision: float) -> NDArray[np.int64]:
    """Which of `run.unlabelled` are not accepted, in the order in which to label them."""
    left = found.order[found.accept(precision).count :]
    return left[most_useful(run, left)]


def most_useful(run: TrainedRun, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order in which to label these of `run.unlabelled`: uncertain ones that differ, then the rest by entropy."""
    if not len(index):
        return index
    uncertainty = entropy(run.pool_prediction.probs)[index]
    by_entropy = uncertainty.argsort(descending=True, stable=True)
    likely = by_entropy[:CANDIDATES]
    features = backbone_features(
        run.network, run.data.train, run.unlabelled[index[likely]], run.config.evaluation.batch
    )
    first = likely[uncertain_and_diverse(features, uncertainty[likely], DIVERSE, generator(0, "suggest"))]
    return np.array(list(dict.fromkeys([*first.tolist(), *by_entropy.tolist()])), dtype=np.int64)
