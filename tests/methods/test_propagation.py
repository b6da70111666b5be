import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from surelabel.methods import propagation
from surelabel.methods.propagation import ALPHA, LEAST, STEPS, neighbour_graph, propagate


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    return images[:400].astype(np.float32), labels[:400]


def dense_affinity(rows, neighbours=10):
    """cos^3 of the nearest others, both ways, by a plain loop."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = unit.astype(np.float64) @ unit.T.astype(np.float64)
    affinity = np.zeros_like(cosine)
    for row, values in enumerate(cosine):
        nearest = [other for other in np.argsort(-values) if other != row][:neighbours]
        affinity[row, nearest] = values[nearest] ** 3
    return affinity + affinity.T


def test_neighbour_graph_agrees_with_a_plain_loop(digits, monkeypatch):
    monkeypatch.setattr(propagation, "BLOCK", 150)
    rows, _ = digits
    affinity = dense_affinity(rows)
    degree = affinity.sum(1)
    expected = affinity / np.sqrt(degree[:, None] * degree)
    assert neighbour_graph(rows).toarray() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("count", [2, 5, 11])
def test_neighbour_graph_of_few_rows_is_finite(count):
    graph = neighbour_graph(np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32))
    assert np.isfinite(graph.toarray()).all()


def test_propagate_agrees_with_label_spreading(digits):
    rows, labels = digits
    index = np.arange(0, 400, 9)
    known = np.full(400, -1)
    known[index] = labels[index]
    theirs = LabelSpreading(kernel=lambda a, _: dense_affinity(a), alpha=ALPHA, max_iter=STEPS, tol=0)
    with pytest.warns(match="max_iter"):
        theirs.fit(rows, known)
    affinity = dense_affinity(rows)
    graph = affinity / np.sqrt(affinity.sum(1)[:, None] * affinity.sum(1))
    mass = seeds = np.eye(10)[labels] * (known >= 0)[:, None]
    for _ in range(STEPS):
        mass = ALPHA * graph @ mass + (1 - ALPHA) * seeds
    shares = (np.bincount(labels[index], minlength=10) + 1) / (len(index) + 10)
    expected = theirs.label_distributions_ * shares / mass.sum(0)
    expected = expected / expected.sum(1, keepdims=True) + LEAST
    found = propagate(neighbour_graph(rows), index, labels[index], 10)
    assert found == pytest.approx(expected / expected.sum(1, keepdims=True), abs=1e-4)
    assert (found.argmax(1) == labels).mean() > 0.85


def test_propagate_gives_every_class_some_probability():
    two_islands = np.concatenate([np.eye(1, 4).repeat(30, 0), np.eye(1, 4, 2).repeat(30, 0)])
    noise = np.random.default_rng(0).normal(scale=0.01, size=two_islands.shape)
    found = propagate(neighbour_graph((two_islands + noise).astype(np.float32)), np.array([0]), np.array([1]), 2)
    assert found.min() > 0
    assert found.sum(1) == pytest.approx(np.ones(60))
