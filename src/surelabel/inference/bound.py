"""The generalisation bound that motivates the paper (its Corollary 1), computed for a trained run.

Theorem 1 (Germain et al., 2016, Corollary 4) bounds the posterior's expected NLL by

    (1/N_u) Σ_u E_q[-log p(ŷ_u | x_u)] + (1/N_l) Σ_l E_q[-log p(y_l | x_l)] + (KL + log 1/δ) / N + s²/2

with the empirical risk as the proof defines it, a sum of two means. The corollary is printed as

    -ELBO / N - E_q[(1/N_u) Σ_u log p(ŷ_u | x_u) / p(y_u | x_u)] + (log 1/δ) / N + s²/2

docs/departures.md names the step between them that does not hold. Neither is a guarantee here: the
features are trained on the same data, and s², the variance factor of a sub-Gaussian loss, is not
known but given.
"""

from dataclasses import dataclass
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.source import UNLABELLED, Source
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.heads import BayesianHead
from surelabel.models.network import Network
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator


@dataclass(frozen=True)
class Bound:
    """Both right-hand sides, their terms, and the test NLL of a draw from the posterior."""

    theorem: float
    printed: float
    negative_elbo: float  # / N
    divergence: float  # of pseudo-labels from true labels: the corollary's second term
    confidence: float  # log(1/δ) / N
    sub_gaussian: float  # s²/2
    test_nll: float
    test_nll_of_mean: float  # of the averaged prediction, which is never larger


def bound_terms(
    log_labelled: Tensor, labels: Tensor, log_unlabelled: Tensor, hidden: Tensor, pseudo: Tensor, kl: float,
    delta: float, variance: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """(theorem, printed, -ELBO/N, divergence) from E_q[log p(k | x)], labelled [L, K], unlabelled [U, K].

    `labels` [L] and `hidden` [U] are true classes, `pseudo` [U] the predicted ones.
    """
    n = len(labels) + len(hidden)
    tail = log(1 / delta) / n + variance / 2
    true_l, true_u = _at(log_labelled, labels), _at(log_unlabelled, hidden)
    assigned = _at(log_unlabelled, pseudo)
    theorem = float(-assigned.mean() - true_l.mean()) + kl / n + tail
    negative_elbo = (float(-true_l.sum() - true_u.sum()) + kl) / n
    divergence = float(-(assigned - true_u).mean())
    return theorem, negative_elbo + divergence + tail, negative_elbo, divergence


def bound_of(run: TrainedRun, variance: float, delta: float) -> Bound:
    """The bound for the evaluated weights of a run."""
    return bound(run.network, run.data.train, run.labelled, run.test, variance, delta)


def bound(
    network: Network, train: Source, labelled: NDArray[np.int64], test: Source, variance: float, delta: float = 0.05
) -> Bound:
    """The bound for a network with a Bayesian head, on a pool whose classes are all known."""
    if not isinstance(network.head, BayesianHead):
        raise UserError("the bound needs a Bayesian head: use a run of bam-pseudo-label, bam-uda or bam-fixmatch")
    if (train.labels == UNLABELLED).any() or (test.labels == UNLABELLED).any():
        raise UserError("the bound needs the true class of every sample, in the pool and in the test set")
    if not (0 < delta < 1 and variance >= 0):
        raise UserError(f"the bound needs 0 < δ < 1 and s² ≥ 0, not {delta} and {variance}")
    unlabelled = np.setdiff1d(np.arange(len(train)), labelled)
    if not len(unlabelled):
        raise UserError("the bound needs pseudo-labels, but the whole pool is labelled: use a run with fewer labels")
    log_labelled, _ = _expectations(network, train, labelled, "labelled")
    log_unlabelled, log_mean = _expectations(network, train, unlabelled, "unlabelled")
    log_test, log_test_mean = _expectations(network, test, np.arange(len(test)), "test")
    labels, hidden, test_labels = map(torch.from_numpy, (train.labels[labelled], train.labels[unlabelled], test.labels))
    kl = sum(part.sum().item() for part in network.head.kl())
    theorem, printed, elbo, divergence = bound_terms(
        log_labelled, labels, log_unlabelled, hidden, log_mean.argmax(-1), kl, delta, variance
    )
    return Bound(
        theorem, printed, elbo, divergence, log(1 / delta) / len(train), variance / 2,
        float(-_at(log_test, test_labels).mean()), float(-_at(log_test_mean, test_labels).mean()),
    )  # fmt: skip


def _at(values: Tensor, classes: Tensor) -> Tensor:
    return values.gather(-1, classes[:, None]).squeeze(-1).double()


@torch.no_grad()
def _expectations(network: Network, source: Source, index: NDArray[np.int64], name: str) -> tuple[Tensor, Tensor]:
    """E_q[log p] and log E_q[p], both [n, K]; `name` fixes the draws."""
    assert isinstance(network.head, BayesianHead)
    network.eval()
    batches = []
    for number, part in enumerate(np.array_split(index, max(1, len(index) // 256))):
        features = network.features(torch.from_numpy(source.samples(part)).to(network.scale.device))
        batches.append(network.head.log_expectations(features, generator(0, f"bound, {name}", number)))
    inside, outside = (torch.cat(rows).cpu() for rows in zip(*batches, strict=True))
    return inside, outside
