"""Joining learners: the product of their probabilities, each to a power that left-out labels choose."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax


@dataclass(frozen=True)
class Prior:
    """log a_m ~ N(log mean_m, std_m²) of the powers a_m: few labels cannot let the most confident learner rule."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def fit_powers(
    log_probs: NDArray[np.float64],
    labels: NDArray[np.int64],
    prior: Prior | None = None,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The powers a [M] of learners whose left-out predictions are `log_probs` [M, n, K].

    They minimise the NLL of prod p_m^a_m, whose samples may have `weights` [n], and its prior, by default at equal
    ones. Their sum is one over a temperature.
    """
    learners = len(log_probs)
    prior = prior or Prior((1 / learners,) * learners, (1.0,) * learners)
    centre, std = np.log(prior.mean), np.array(prior.std)
    weights = np.ones(len(labels)) if weights is None else weights
    place = np.arange(len(labels)), labels

    def loss(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        powers = np.exp(logs)
        joint = log_softmax(np.tensordot(powers, log_probs, 1), axis=1)
        rest = np.exp(joint)
        rest[place] -= 1
        slope = powers * np.einsum("mnk,nk,n->m", log_probs, rest, weights)
        off = (logs - centre) / std
        return float(-weights @ joint[place] + 0.5 * (off**2).sum()), slope + off / std

    found = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=[(-7, 5)] * len(centre))
    return np.asarray(np.exp(found.x))


def join(log_probs: NDArray[np.float64], powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """log prod p_m^a_m [..., K], normalised; log_probs [M, ..., K]."""
    return np.asarray(log_softmax(np.tensordot(powers, log_probs, 1), axis=-1))
