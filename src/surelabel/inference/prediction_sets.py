"""Sets of classes that hold the right one, by the left-out labels: CV+ for classification.

Romano, Sesia and Candès, 2020, "Classification with valid and adaptive coverage"; Barber et al., 2021, "Predictive
inference with the jackknife+". Where classes are more or less frequent in the pool than among the labels, these are
weighted (Podkopaev and Ramdas, 2021). Shapes: n labels, N samples, V folds, K classes.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import Source
from surelabel.utils.errors import UserError

BLOCK = 4096  # samples at a time
TINY = 1e-9  # (1 - α)(n + 1) may be a whole number, which floats miss


@dataclass(frozen=True)
class LabelScores:
    """How unlikely each label is by the models that have not seen it: 1 - p(label).

    These probabilities must not be fitted to left-out labels, as powers or a temperature are.
    """

    scores: NDArray[np.float64]  # [n]
    fold: NDArray[np.int64]  # [n]
    weights: NDArray[np.float64]  # [n], how much each label counts
    class_weights: NDArray[np.float64]  # [K], how much a label of each class would

    @property
    def weighted(self) -> bool:
        return bool(np.ptp(self.class_weights) > 0)

    def sets(self, probs: NDArray[np.float64], coverage: float) -> NDArray[np.bool_]:
        """Which classes are in the set of each sample [N, K]; probs [N, V, K], by the models without each fold.

        Class k is left out if at least (1 - α)(n + 1) labels are likelier to the models that have not seen them than
        k is to the same models.
        """
        likelier = np.zeros((len(probs), probs.shape[2]))
        for v in np.unique(self.fold):
            here = self.fold == v
            order = np.argsort(self.scores[here])
            below = np.concatenate([[0.0], self.weights[here][order].cumsum()])
            likelier += below[np.searchsorted(self.scores[here][order], 1 - probs[:, v], side="left")]
        return np.asarray(likelier < coverage * (self.weights.sum() + self.class_weights) - TINY)

    def guarantee(self, coverage: float) -> float | None:
        """The coverage that holds for any data; None for weighted labels, whose weights are estimates.

        For n labels in V folds of one size it is 1 - 2α - min{2 (1 - 1/V) / (n/V + 1), (1 - V/n) / (V + 1)}.
        """
        n, folds = len(self.scores), len(np.unique(self.fold))
        slack = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
        return None if self.weighted else max(0.0, 1 - 2 * (1 - coverage) - slack)

    def check_enough(self, coverage: float) -> None:
        """Raise if some class would be in every set."""
        check_enough(len(self.scores), coverage, float(self.class_weights.max() / self.weights.mean()))


def labels_needed(coverage: float, ratio: float = 1.0) -> int:
    """The fewest labels such that no class is in every set, if one counts up to `ratio` times as much as the mean."""
    return max(1, ceil(ratio * coverage / (1 - coverage) - TINY))


def check_enough(labels: int, coverage: float, ratio: float = 1.0) -> None:
    """Raise if so few labels that were left out make some class a member of every set."""
    if labels < (needed := labels_needed(coverage, ratio)):
        reached = [lower for lower in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5) if labels_needed(lower, ratio) <= labels]
        instead = f", or ask for {reached[0]}" if reached else ""
        raise UserError(
            f"sets that hold the right class with probability {coverage} take at least {needed} labels that can be "
            f"left out (not suggested, not their class's only one), and there are {labels}: label more{instead}"
        )


def check_labels(train: Source, labelled: NDArray[np.int64], coverage: float) -> None:
    """Raise if these labels are too few, whatever folds they will be dealt into and whatever they will count."""
    labels, random = train.labels[labelled], train.at_random(labelled)
    counts = np.bincount(labels)
    check_enough(int((random & (counts[labels] > 1)).sum()), coverage)


def promise(scores: LabelScores, coverage: float, sizes: NDArray[np.int64]) -> str:
    """What sets promise, and how large they are: `sizes` [K + 1] of them have 0, 1, ... classes."""
    mean, guarantee = sizes @ np.arange(len(sizes)) / sizes.sum(), scores.guarantee(coverage)
    if guarantee is None:
        certain = "; labels drawn per class are weighted by estimated class shares, so nothing is guaranteed"
    else:
        certain = f"; CV+ guarantees {guarantee:.0%}, for labels drawn at random from the pool"
    return (
        f"Sets of classes (the column set): about {coverage:.0%} of them should hold the right one (by "
        f"{len(scores.scores)} left-out labels{certain}); {mean:.2f} classes on average, "
        f"{sizes[1]:,} of {sizes.sum():,} have one"
    )
