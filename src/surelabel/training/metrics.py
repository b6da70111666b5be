"""Metrics from sums, which add up over batches with `+` and over ranks field by field.

Making and adding sums never waits for the device; computing metrics does. Shapes: N samples, U unlabelled batch,
K classes, M bins. Sums are float64, so counts are exact.
"""

from dataclasses import dataclass
from math import exp, log
from typing import Self, TypedDict

import torch
from torch import Tensor

from surelabel import equations
from surelabel.equations import Groups
from surelabel.utils.devices import accumulation_dtype
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class _Sums:
    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: mine + getattr(other, name) for name, mine in vars(self).items()})


class ClassMetrics(TypedDict):
    """Of one class: number of samples, accuracy and mean maximum probability (None without samples)."""

    count: int
    accuracy: float | None
    confidence: float | None


@dataclass(frozen=True)
class CalibrationSums(_Sums):
    """Sums over labelled predictions. The rows of `bins` and `classes` are the fields of `equations.Groups`."""

    bins: Tensor  # [3, M], by maximum probability
    classes: Tensor  # [3, K], by label
    nll: Tensor  # []
    brier: Tensor  # []

    def metrics(self) -> dict[str, float]:
        """accuracy, ece, mce, nll, brier and confidence (the mean maximum probability)."""
        bins = Groups(*self.bins)
        n = bins.size.sum()
        return _floats(
            {
                "accuracy": bins.correct.sum() / n,
                "ece": equations.ece_of_bins(bins),
                "mce": equations.mce_of_bins(bins),
                "nll": self.nll / n,
                "brier": self.brier / n,
                "confidence": bins.confidence.sum() / n,
            }
        )

    def per_class(self) -> list[ClassMetrics]:
        """The metrics of each class, in order."""
        return [
            ClassMetrics(count=int(n), accuracy=correct / n if n else None, confidence=confidence / n if n else None)
            for n, confidence, correct in self.classes.T.tolist()
        ]


def calibration_sums(probs: Tensor, labels: Tensor, bins: int = 10) -> CalibrationSums:
    """The sums of one batch of predictions. probs [N, K], labels [N]."""
    n, classes = probs.shape
    return CalibrationSums(
        bins=torch.stack(equations.equal_width_bins(probs, labels, bins)),
        classes=torch.stack(equations.group(labels, classes, *equations.top(probs, labels))),
        nll=equations.nll(probs, labels) * n,
        brier=equations.brier(probs, labels) * n,
    )


@dataclass(frozen=True)
class SelectionSums(_Sums):
    """Sums over pseudo-labels, the last three of their weights: seen, accepted with a known label, and correct among
    those; accepted by class.
    """

    seen: Tensor  # []
    max_prob: Tensor  # []
    known: Tensor  # []
    correct: Tensor  # []
    accepted: Tensor  # [K], by the class of the pseudo-label

    def metrics(self) -> dict[str, float | None]:
        """purity (None unless most accepted samples' labels are known), acceptance, effective_classes (the exponential
        of the entropy of the accepted classes' shares; None without any) and confidence (mean `max_prob`).

        If only the labels used for training are known, the purity would only say how well they were learnt.
        """
        seen, max_prob, known, correct, *by_class = torch.cat(
            [self.seen[None], self.max_prob[None], self.known[None], self.correct[None], self.accepted]
        ).tolist()
        accepted = sum(by_class)
        shares = [weight / accepted for weight in by_class if weight]
        return {
            "purity": correct / known if 2 * known > accepted else None,
            "acceptance": accepted / seen,
            "effective_classes": exp(-sum(share * log(share) for share in shares)) if shares else None,
            "confidence": max_prob / seen,
        }


def selection_sums(probs: Tensor, weights: Tensor, labels: Tensor) -> SelectionSums:
    """The sums of one unlabelled batch. probs [U, K], weights [U] in [0, 1], or bool; labels [U], -1 if unknown."""
    confidence, predicted = probs.max(-1)
    accepted = weights.to(accumulation_dtype(weights.device))
    return SelectionSums(
        seen=torch.ones_like(accepted).sum(),
        max_prob=confidence.to(accepted.dtype).sum(),
        known=(accepted * (labels >= 0)).sum(),
        correct=(accepted * (predicted == labels)).sum(),
        accepted=accepted.new_zeros(probs.shape[1]).index_add_(0, predicted, accepted),
    )


def evaluation(probs: Tensor, labels: Tensor) -> dict[str, float]:
    """All metrics of a set of predictions: accuracy, ece, mce, nll, ..., aurc. probs [N, K], labels [N]."""
    _check(probs, labels)
    of_all = {
        "ece_classwise": equations.classwise_ece(probs, labels),
        "ece_equal_mass": equations.equal_mass_ece(probs, labels),
        "aurc": equations.aurc(probs, labels),
    }
    return calibration_sums(probs, labels).metrics() | _floats(of_all)


def per_class(probs: Tensor, labels: Tensor) -> list[ClassMetrics]:
    """The metrics of each class, in order. probs [N, K], labels [N]."""
    _check(probs, labels)
    return calibration_sums(probs, labels).per_class()


def _floats(values: dict[str, Tensor]) -> dict[str, float]:
    return dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))


def _check(probs: Tensor, labels: Tensor) -> None:
    if probs.ndim != 2 or labels.shape != probs.shape[:1] or probs.numel() == 0:
        raise UserError(
            f"predictions {tuple(probs.shape)} and labels {tuple(labels.shape)} do not match: "
            "give probabilities [samples, classes] and one label per sample, at least one"
        )
    if not (labels.min() >= 0 and labels.max() < probs.shape[1]):
        raise UserError(
            f"labels {int(labels.min())}..{int(labels.max())} are outside 0..{probs.shape[1] - 1}: "
            "evaluate only samples whose class is known"
        )
    # 0.01 allows for half precision; logits, NaN and infinities fail.
    if not (probs.min() >= 0 and ((probs.sum(-1) - 1).abs() < 0.01).all()):
        raise UserError(
            "some predictions are not probabilities (negative, not finite, or not summing to 1): "
            "pass softmax outputs, and check that the training did not diverge"
        )
