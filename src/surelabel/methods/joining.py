"""Joining learners: the product of their probabilities, each to a power that left-out labels choose."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

PRIOR_STD = 1.0  # of the logarithm of a power


def fit_powers(log_probs: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The powers a [M] of learners whose left-out predictions are `log_probs` [M, n, K].

    They minimise the NLL of prod p_m^a_m, with a prior log a_m ~ N(log 1/M, 1): a few labels cannot let the most
    confident learner rule. Their sum holds the temperature.
    """
    learners = len(log_probs)
    centre = -np.log(learners)
    place = np.arange(len(labels)), labels

    def loss(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        powers = np.exp(logs)
        joint = log_softmax(np.tensordot(powers, log_probs, 1), axis=1)
        rest = np.exp(joint)
        rest[place] -= 1
        slope = powers * np.einsum("mnk,nk->m", log_probs, rest)
        off = (logs - centre) / PRIOR_STD
        return float(-joint[place].sum() + 0.5 * (off**2).sum()), slope + off / PRIOR_STD

    found = minimize(loss, np.full(learners, centre), jac=True, method="L-BFGS-B", bounds=[(-7, 5)] * learners)
    return np.asarray(np.exp(found.x))


def join(log_probs: NDArray[np.float64], powers: NDArray[np.float64]) -> NDArray[np.float64]:
    """log prod p_m^a_m [n, K], normalised."""
    return np.asarray(log_softmax(np.tensordot(powers, log_probs, 1), axis=1))
