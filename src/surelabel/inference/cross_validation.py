"""How accurate a run on few labels may be, estimated from these labels alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from surelabel.config.run import RunConfig
from surelabel.data.holdout import Fold, choose_held_out
from surelabel.inference.trained_run import data_of, load_network
from surelabel.models.frozen_features import FeatureSource
from surelabel.training import metrics
from surelabel.training.evaluate import labelled_indices, predict
from surelabel.training.run_folder import RunFolder
from surelabel.utils import devices

FOLDS = 5
Z95 = 1.96  # of 95 %
L2 = 1e-2  # towards zero, of the linear classifier's weights: there are more of them than labels
MOST_LABELS = 2000
MOST_OOD, STRANGER_THAN = 0.25, 0.95


@dataclass(frozen=True)
class Estimate:
    """So many of the labels, each predicted by what was trained without it, were right; `ece` where it is known.

    `folds` is how many trainings there were.
    """

    right: int
    labels: int
    ece: float | None = None
    folds: int = FOLDS

    @property
    def accuracy(self) -> float:
        return self.right / self.labels

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval, as of fewer labels: trainings that share most of their labels err together.

        With k folds the variance is that of independent samples times 1 + k/(k − 1) (Nadeau and Bengio, 2003).
        """
        count = self.labels / (1 + self.folds / (self.folds - 1))
        fraction, spread = self.accuracy, Z95**2 / count
        centre = (fraction + spread / 2) / (1 + spread)
        half = Z95 * sqrt(fraction * (1 - fraction) / count + spread / (4 * count)) / (1 + spread)
        return centre - half, centre + half


def linear_probe(source: FeatureSource, labelled: NDArray[np.int64], seed: int) -> Estimate:
    """Cross-validation of a linear classifier on frozen features: seconds, and independent of the run's training."""
    labels, labelled = source.labels, _some(labelled)
    folds = min(FOLDS, len(labelled))
    right = 0
    for part in range(1, folds + 1):
        held = choose_held_out(labels, labelled, Fold(part, folds), seed, source.classes)
        kept = np.setdiff1d(labelled, held)
        with devices.one_thread():
            predicted = _linear(source.samples(kept), labels[kept], source.samples(held), len(source.classes))
        right += int((predicted == labels[held]).sum())
    return Estimate(right, len(labelled), folds=folds)


def _linear(
    features: NDArray[np.float32], labels: NDArray[np.int64], new: NDArray[np.float32], classes: int
) -> NDArray[np.int64]:
    """The classes that multinomial logistic regression with a pull towards zero gives new features."""
    centre, spread = features.mean(0), features.std(0) + 1e-6
    x, y = torch.from_numpy((features - centre) / spread).double(), torch.from_numpy(labels)
    weights = torch.zeros(x.shape[1], classes, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(x @ weights + bias, y) + L2 * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        logits = torch.from_numpy((new - centre) / spread).double() @ weights + bias
    return logits.argmax(1).numpy()


def retrain(folder: RunFolder, folds: int, train: Callable[[RunConfig], RunFolder]) -> Estimate:
    """Cross-validation of the run itself: trained `folds` times, each time without a part of the labels.

    By one process, also where the run was made by several.
    """
    run = replace(folder.config, devices=1, nodes=1)
    folds = min(folds, len(folder.labelled()))
    parts = [
        train(replace(run, holdout=f"{part}/{folds}", out=str(Path(folder.path, f"cv-{part}-of-{folds}"))))
        for part in range(1, folds + 1)
    ]
    probs, labels = [], []
    for part in parts:
        test = data_of(part).test
        assert test is not None
        index = labelled_indices(test)
        probs.append(predict(load_network(part), test, index, run.evaluation.batch).probs)
        labels.append(torch.from_numpy(test.labels[index]))
    found = metrics.evaluation(torch.cat(probs), torch.cat(labels))
    count = len(torch.cat(labels))
    return Estimate(round(found["accuracy"] * count), count, found["ece"], folds)


def _some(labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """All labels, or as many, evenly spread, as can be compared with each other in seconds."""
    return labelled[:: -(-len(labelled) // MOST_LABELS)]


def ood_fraction(source: FeatureSource, labelled: NDArray[np.int64]) -> float:
    """The share of the pool that is less like its nearest labelled sample than labelled ones are like each other.

    Likeness is the cosine of centred features. A labelled sample counts as unlike if it is less like the others of its
    class than 95 of 100 are; of a pool like the labels, about 5 in 100 would be.
    """
    pool = torch.from_numpy(np.setdiff1d(np.arange(len(source)), labelled))
    labelled = _some(labelled)
    if not len(pool):
        return 0.0
    rows = torch.from_numpy(np.array(source.rows))
    unit = functional.normalize(rows - rows.mean(0), dim=1)
    labels = torch.from_numpy(source.labels[labelled])
    own = unit[labelled]
    among = own @ own.T
    among[(labels[:, None] != labels) | torch.eye(len(labels), dtype=torch.bool)] = -1
    nearest = among.max(1).values
    nearest = nearest[nearest > -1]
    if len(nearest) < 10:
        return 0.0  # too few to tell what is usual
    usual = nearest.quantile(1 - STRANGER_THAN)
    likeness = torch.cat([(part @ own.T).max(1).values for part in torch.split(unit[pool], 4096)])
    return float((likeness < usual).double().mean())
