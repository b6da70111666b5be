"""Joining learners: the product of their probabilities, each to a power that left-out labels choose."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax


@dataclass(frozen=True)
class Prior:
    """What the powers a_m = s w_m are before labels are seen: few labels cannot let the most confident learner rule.

    log s ~ N(log scale, scale_std²); the shares w are softmax(log shares + z), z_m ~ N(0, shares_std²).
    """

    scale: float
    scale_std: float
    shares: tuple[float, ...]
    shares_std: float = 0.7

    @property
    def powers(self) -> NDArray[np.float64]:
        """The most likely powers [M] without labels."""
        return self.scale * np.array(self.shares)


def equal(learners: int) -> Prior:
    """Powers that are about equal and sum to about one."""
    return Prior(1.0, 1.0, (1 / learners,) * learners)


def fit_powers(
    log_probs: NDArray[np.float64], labels: NDArray[np.int64], prior: Prior, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """The powers a [M] of learners whose left-out predictions are `log_probs` [M, n, K].

    They minimise the NLL of prod p_m^a_m, whose samples may have `weights` [n], and of the prior. Their sum is one over
    a temperature.
    """
    weights = np.ones(len(labels)) if weights is None else weights
    place = np.arange(len(labels)), labels

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        powers = _powers(found, prior)
        joint = log_softmax(np.tensordot(powers, log_probs, 1), axis=1)
        rest = np.exp(joint)
        rest[place] -= 1
        slope = powers * np.einsum("mnk,nk,n->m", log_probs, rest, weights)  # by log a_m
        slopes = np.array([slope.sum(), *(slope - powers / powers.sum() * slope.sum())])  # by log s and by z
        off = found / std
        return float(-weights @ joint[place] + 0.5 * (off**2).sum()), slopes + off / std

    std = np.array([prior.scale_std] + [prior.shares_std] * len(prior.shares))
    start = np.zeros(len(std))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * len(start))
    return _powers(found.x, prior)


def _powers(found: NDArray[np.float64], prior: Prior) -> NDArray[np.float64]:
    return np.asarray(prior.scale * np.exp(found[0]) * softmax(np.log(prior.shares) + found[1:]))


def join(log_probs: NDArray[np.float64], powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """log prod p_m^a_m [..., K], normalised; log_probs [M, ..., K]."""
    return np.asarray(log_softmax(np.tensordot(powers, log_probs, 1), axis=-1))
