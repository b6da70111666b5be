"""Cross-fitted teachers: soft labels for the whole pool, once for each fold of the labels, without that fold."""

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from surelabel.data.folds import ALWAYS_SEEN
from surelabel.methods.joining import equal, fit_powers, join
from surelabel.methods.propagation import as_probs, neighbour_graph, smoothed_shares, spread
from surelabel.models.members_head import LEAST

LOGIT_VARIANCE = 64.0  # that logistic regression expects before it has seen labels
SHRINKAGE = 0.1  # of estimated class shares

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Teachers:
    """Entry v has not seen the labels of fold v."""

    probs: NDArray[np.float32]  # [V, N, K]
    shares: NDArray[np.float64]  # [V, K], of the classes in the pool
    over: NDArray[np.float64]  # [V, K], these over the shares of the labels; ones if the labels tell them
    powers: NDArray[np.float64]  # [V, 2], of propagation and of logistic regression
    weight: NDArray[np.float64]  # [V, d, K], of logistic regression
    bias: NDArray[np.float64]  # [V, K]


def cross_fitted_teachers(
    rows: Rows,
    index: Labels,
    labels: Labels,
    fold: Labels,
    folds: int,
    classes: int,
    per_class: bool = False,
    at_random: NDArray[np.bool_] | None = None,
) -> Teachers:
    """Teachers for the pool `rows` [N, d], whose samples at `index` [n] have these labels and folds.

    Each is label propagation joined with logistic regression. The powers of v are fitted to predictions for the labels
    of each other fold u, by learners that have seen neither u nor v, as far as these have seen the label's class. Where
    labels were drawn `per_class`, the shares of the pool are estimated from what the teacher says of it. Labels that
    were not drawn `at_random` are learnt; they enter no share and no power, unless all are such.
    """
    speaks = at_random if at_random is not None and at_random.any() else np.ones(len(labels), dtype=np.bool_)
    block = np.where(fold == ALWAYS_SEEN, folds, fold)
    # What propagation gives without some folds is a sum over the others, so it runs once.
    mass = spread(neighbour_graph(rows), index, block * classes + labels, (folds + 1) * classes)
    mass = mass.reshape(len(rows), folds + 1, classes)
    totals = mass.sum(0, dtype=np.float64)  # [V + 1, K]

    def seen(out: frozenset[int]) -> NDArray[np.bool_]:
        return ~np.isin(fold, list(out))

    def shares_without(out: frozenset[int]) -> NDArray[np.float64]:
        return smoothed_shares(labels[seen(out) & speaks], classes)

    def by_propagation(out: frozenset[int], at: Labels | slice) -> NDArray[np.float64]:
        kept = [part for part in range(folds + 1) if part not in out]
        return as_probs(mass[at][:, kept].sum(1), totals[kept].sum(0), shares_without(out))

    @cache
    def linear(out: frozenset[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return fit_linear(rows[index[seen(out)]], labels[seen(out)], classes)

    def by_linear(out: frozenset[int], at: Labels | slice) -> NDArray[np.float64]:
        weight, bias = linear(out)
        return np.asarray((softmax(rows[at] @ weight + bias, axis=1) + LEAST) / (1 + LEAST * classes))

    def both(out: frozenset[int], at: Labels | slice) -> NDArray[np.float64]:
        return np.log([by_propagation(out, at), by_linear(out, at)])

    probs = np.empty((folds, len(rows), classes), np.float32)
    powers = np.empty((folds, 2))
    for v in range(folds):
        parts, known = [np.empty((2, 0, classes))], [np.empty(0, np.int64)]
        for u in set(fold.tolist()) - {v, ALWAYS_SEEN}:
            out = frozenset((u, v))
            here = (fold == u) & speaks & np.isin(labels, labels[seen(out)])
            parts.append(both(out, index[here]))
            known.append(labels[here])
        powers[v] = fit_powers(np.concatenate(parts, axis=1), np.concatenate(known), equal(2))
        probs[v] = np.exp(join(both(frozenset((v,)), slice(None)), powers[v]))
    shares = np.stack([shares_without(frozenset((v,))) for v in range(folds)])
    over = np.ones_like(shares)
    if per_class:
        over = np.stack([pool_shares(one, before) for one, before in zip(probs, shares, strict=True)]) / shares
        probs *= over[:, None].astype(np.float32)
        probs /= probs.sum(-1, keepdims=True)
    weights, biases = zip(*(linear(frozenset((v,))) for v in range(folds)), strict=True)
    return Teachers(probs, shares * over, over, powers, np.stack(weights), np.stack(biases) + np.log(over))


def fit_linear(rows: Rows, labels: Labels, classes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights [d, K] and biases [K] of logistic regression; of a class without a label, next to impossible ones.

    It is regularised so that a logit has the prior variance `LOGIT_VARIANCE`, whatever the length of the rows.
    """
    weight, bias = np.zeros((rows.shape[1], classes)), np.full(classes, np.log(LEAST))
    known = np.unique(labels)
    if len(known) < 2:
        bias[known] = 0
        return weight, bias
    strength = LOGIT_VARIANCE / max(float(np.square(rows).sum(1).mean()), 1e-12)
    with warnings.catch_warnings(), threadpool_limits(1):  # a small sum takes less time than waiting for a thread
        warnings.simplefilter("ignore", ConvergenceWarning)  # close is enough
        model = LogisticRegression(C=strength, max_iter=200, tol=1e-3).fit(rows, labels)
    # Of two classes, scikit-learn has one row, for the second.
    stacked, biases = model.coef_, model.intercept_
    if len(known) == 2:
        stacked, biases = np.stack([0 * stacked[0], stacked[0]]), np.array([0, biases[0]])
    weight[:, known], bias[known] = stacked.T, biases
    bias[np.setdiff1d(np.arange(classes), known)] += biases.min()
    return weight, bias


def pool_shares(probs: NDArray[np.float32], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares of the classes [K] in a pool, from predictions [N, K] for it that assume the shares `before`.

    Maximum likelihood by EM (Saerens et al., 2002), drawn towards `before`: predictions are not exactly calibrated.
    """
    ratio, shares = probs / before, before
    for _ in range(100):
        posterior = ratio * shares
        shares = (posterior / posterior.sum(1, keepdims=True)).mean(0)
    return np.asarray((1 - SHRINKAGE) * shares + SHRINKAGE * before)
