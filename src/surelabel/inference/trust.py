"""How far the confidence of a cross-fitted run can be trusted, from its labels alone.

Each label was left out by some members, for which its sample was one of the pool like any other. What they predict
for it is what the run predicts for the pool. Shapes: n labels, N samples of the pool, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from surelabel.data.folds import ALWAYS_SEEN
from surelabel.equations import entropy
from surelabel.inference.cross_validation import Z95, wilson
from surelabel.inference.suggest import LEAST as CANDIDATES
from surelabel.inference.suggest import NothingUnlabelled, backbone_features, uncertain_and_diverse
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import fit_powers, join
from surelabel.methods.sure import PRIOR, Sure, by_fold
from surelabel.models.members_head import MembersHead
from surelabel.training.build import build_method
from surelabel.utils.csv import write_csv
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from surelabel.utils.words import some

PRECISION = 0.95  # of the samples to accept, if the user names none
RISK = 0.05  # of a lower bound
# A threshold is chosen by looking at the whole curve: the bounds hold for all of it together, as if of ten (a test).
LOOKS = 10
DOUBTED = 0.05  # a label is doubted if its class has less than this probability
DIVERSE = 100  # samples to label that are chosen to differ; the rest are in the order of their entropy


@dataclass(frozen=True)
class LeftOut:
    """Labels and what was predicted for them without knowing them; the powers are those of the other folds."""

    index: NDArray[np.int64]  # [n], in the pool
    labels: NDArray[np.int64]  # [n]
    probs: NDArray[np.float64]  # [n, K]
    rank: NDArray[np.float64]  # [n], the share of the pool that the same members are as confident of, or more
    weights: NDArray[np.float64]  # [n], of mean 1: how much each counts, where the labels' classes are not the pool's

    @property
    def size(self) -> float:
        """How many labels of equal weight would tell as much."""
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum())

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
    method = build_method(run.config)
    if not isinstance(method, Sure):
        raise UserError(f"{run.name} was trained by {run.config.method}, which leaves no labels out: use sure")
    labels = run.data.train.labels[run.labelled]
    fold = method.draw_folds(run.data.train, run.labelled)
    counted = fold != ALWAYS_SEEN
    index, labels, fold = run.labelled[counted], labels[counted], fold[counted]
    if not len(index):
        raise UserError(f"{run.name}: each class has one label only, so none could be left out. Label more")
    batch = run.config.evaluation.batch
    logs = np.log(by_fold(run.network, run.data.train, index, method.folds, batch)[:, np.arange(len(index)), fold])
    probs, rank = np.empty(logs.shape[1:]), np.empty(len(index))
    pool = np.log(by_fold(run.network, run.data.train, pool_of(run), method.folds, batch))
    head = run.network.head
    assert isinstance(head, MembersHead)
    weights = head.class_weight.cpu().double().numpy()[fold, labels]
    for v in np.unique(fold):
        here = fold == v
        powers = fit_powers(logs[:, ~here], labels[~here], PRIOR, weights[~here])
        probs[here] = np.exp(join(logs[:, here], powers))
        others = np.sort(np.exp(join(pool[:, :, v], powers).max(1)))
        rank[here] = 1 - np.searchsorted(others, probs[here].max(1)) / max(len(others), 1)
    return LeftOut(index, labels, probs, rank, weights / weights.mean())


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

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The pool, the most confident first."""
        return np.argsort(-self.confidence, kind="stable")

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """The expected precision [N] of the 1, 2, ..., N most confident samples."""
        return np.asarray(self.confidence[self.order].cumsum() / np.arange(1, len(self.order) + 1))

    def accept(self, precision: float) -> Accepted:
        """The most samples of the pool of which this share should be right."""
        return self.first(int((self.precisions >= precision).sum()))

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
    share = max(wanted.labels, 1) / len(trust.known.labels)
    for of in range(max(wanted.labels, 1), 20_000):
        if lower_bound(round(wanted.precision * of), of) >= wanted.precision - margin:
            return max(1, round(of / share) - len(trust.known.labels))
    return 20_000


def describe(
    found: Trust, precision: float, names: Sequence[str | int], classes: Sequence[str], all_named: bool = True
) -> list[str]:
    """What is known, in sentences; `names` are those of the labelled samples that were left out.

    Unless the labels seem to name all kinds of things in the pool, nothing is promised for it.
    """
    known, wanted = found.known, found.accept(precision)
    low, high = known.interval
    gap, half = known.gap
    sentences = [
        f"Right for about {known.accuracy:.0%} of samples like the labelled ones (95% interval {low:.0%} to "
        f"{high:.0%}), by {len(known.labels)} labels, each predicted by networks that had not seen it",
        f"For these it says {known.accuracy + gap:.0%}: confidence minus accuracy is {100 * gap:+.0f} points (95% "
        f"interval {100 * (gap - half):+.0f} to {100 * (gap + half):+.0f})",
    ]
    if not len(found.confidence):
        sentences.append("Every sample has a label, so there is none to accept")
    elif not wanted.count:
        sentences.append(f"No unlabelled sample can be accepted if {precision:.0%} are to be right: label more")
    else:
        accepted = (
            f"Of {len(found.confidence):,} unlabelled samples, accept the {wanted.count:,} from {wanted.threshold:.2f} "
            f"on: about {wanted.precision:.0%} of them "
            f"{'should be right' if all_named else 'would be right if all were of the named classes'}"
        )
        if wanted.labels and all_named:
            accepted += f" (at least {wanted.least:.0%} with 95% certainty, by {wanted.labels} labels"
            more = more_labels(found, wanted)
            if more:
                accepted += f"; some {more:,} more labels of samples drawn at random would bring that within 5 points"
            accepted += ")"
        sentences.append(accepted)
    doubtful = known.doubtful()
    if len(doubtful):
        listed = [
            f"{names[place]} ({classes[known.labels[place]]}, or {classes[known.probs[place].argmax()]}?)"
            for place in doubtful
        ]
        sentences.append(f"Labels that look wrong: {some(listed)}")
    return sentences


def trust(run: TrainedRun) -> Trust:
    """What is known about a run's confidence for its unlabelled samples."""
    known = left_out(run)
    confidence = run.pool_prediction.probs.double().max(1).values.numpy() if len(pool_of(run)) else np.empty(0)
    return Trust(known, confidence)


def pool_of(run: TrainedRun) -> NDArray[np.int64]:
    """The unlabelled samples; none if every sample has a label."""
    try:
        return run.unlabelled
    except NothingUnlabelled:
        return np.empty(0, dtype=np.int64)


def write_accepted(run: TrainedRun, found: Trust, precision: float, accepted: Path, rest: Path) -> Accepted:
    """Write the samples to accept, the most confident first, and the others, the most useful to label first."""
    chosen = found.accept(precision)
    names, classes = run.data.train.names(run.unlabelled), run.predict_pool().classes
    taken, left = found.order[: chosen.count], found.order[chosen.count :]
    columns = ["sample", "class", "confidence"]
    write_csv(accepted, columns, ((names[i], classes[i], found.confidence[i]) for i in taken))
    order = left[most_useful(run, left)]
    rows = ((n, names[i], "", classes[i], found.confidence[i]) for n, i in enumerate(order, 1))
    write_csv(rest, ["rank", "sample", "label", "predicted", "confidence"], rows)
    return chosen


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
