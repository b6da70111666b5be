from dataclasses import replace

import numpy as np
import pytest
import torch

from bench import peers
from bench.peers import PEERS, at_once, in_steps, peer_network, peer_step, peer_views, rivals, steps, until_goal
from bench.step import RUN, noise_data
from surelabel.config.recipes import embeddings
from surelabel.config.run import Batch, Network
from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.source import user_data_set

SMALL = replace(RUN, network=Network("wrn-10-1"), batch=Batch(4, 2), threads=1)
CLASSES = 3


def clouds(count, seed=0):
    """Rows of three well separated classes."""
    random = np.random.default_rng(seed)
    classes = np.arange(count) % CLASSES
    return (random.standard_normal((count, 8)) + 6 * np.eye(8)[classes]).astype(np.float32), classes


@pytest.mark.parametrize("name", PEERS)
def test_peer_views_are_floats_of_each_view_with_the_labels_of_the_first(name):
    pool = np.random.default_rng(0).integers(0, 256, (20, 3, 32, 32), dtype=np.uint8)
    images, labels = peer_views(PEERS[name], pool, SMALL, np.random.default_rng(1))
    assert images.shape == (4 + 2 * 8, 3, 32, 32)
    assert images.dtype == torch.float32
    assert len(labels) == 4
    # The strong views have a grey square, which the weak ones of noise have not.
    grey = ((images - (127 / 255 - 0.5) / 0.25).abs() < 1e-5).float().mean(dim=(1, 2, 3))
    assert grey[12:].min() > 0.02 > grey[:12].max()


@pytest.mark.parametrize("name", PEERS)
def test_peer_network_has_the_shape_of_the_peer(name):
    peer, network = PEERS[name], peer_network(PEERS[name], SMALL, noise_data(20))
    convolutions = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)]
    activations = [module for module in network.modules() if isinstance(module, torch.nn.LeakyReLU)]
    assert len(convolutions) == 9
    assert all((module.bias is not None) == peer.biases for module in convolutions)
    assert all(module.inplace == peer.in_place for module in activations)
    assert all(module.weight.is_contiguous() for module in convolutions)


@pytest.mark.parametrize("name", PEERS)
def test_peer_step_learns_its_batch(name, monkeypatch):
    made = []
    monkeypatch.setattr(peers, "peer_network", lambda *given: made.append(peer_network(*given)) or made[-1])
    data = noise_data(20)
    images, labels = peer_views(PEERS[name], data.train.samples(np.arange(20)), SMALL, np.random.default_rng(0))
    step = peer_step(PEERS[name], SMALL, data)

    def loss():
        with torch.no_grad():
            return torch.nn.functional.cross_entropy(made[0](images)[: len(labels)], labels).item()

    before = loss()
    for _ in range(10):
        step(images, labels)
    assert loss() < before / 2


@pytest.mark.slow
def test_steps_compare_each_peer_with_both_of_ours(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (300, 3, 32, 32), dtype=np.uint8)
    rows = {row.what: row for row in steps(SMALL, images, rounds=6)}
    for name in PEERS:
        for ours in ("ours in float32", "ours, precision auto"):
            low, high = rows[f"step: {name} / {ours}"].interval
            assert 0 < low <= high
        assert 0 < rows[f"step: views / whole step of {name}"].figure < 1


def test_scikit_learns_learners_learn_from_unlabelled_rows_too():
    (rows, classes), (test, truth) = clouds(60), clouds(60, seed=1)
    labels = np.where(np.arange(60) < 6, classes, -1)
    for model in rivals().values():
        ((seconds, accuracy),) = at_once(model, rows, labels, test, truth)
        assert seconds > 0
        assert accuracy > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sure", "bam-uda"])
def test_in_steps_tells_time_and_accuracy_along_the_way(method):
    (rows, classes), (test, truth) = clouds(300), clouds(60, seed=1)
    labels, names = np.where(np.arange(300) < 30, classes, -1), list("abc")
    data = user_data_set("clouds", EmbeddingSource(rows, labels, names), EmbeddingSource(test, truth, names))
    config = replace(embeddings(method, "custom"), steps=25)
    if method == "sure":
        config = replace(config, network=replace(config.network, name="members-10-16"))
    seconds, accuracies = zip(*in_steps(config, data, every=10), strict=True)
    assert len(seconds) == 3
    assert 0 < seconds[0] < seconds[1] < seconds[2]
    assert accuracies[-1] > 0.9


@pytest.mark.slow
def test_until_goal_has_three_rows_for_each_learner(monkeypatch):
    monkeypatch.setattr(peers, "in_steps", lambda config, data: [(1.0, 0.3), (2.0, 0.7), (3.0, 0.5)])
    monkeypatch.setattr(peers, "rivals", lambda: {"a": "model"})
    monkeypatch.setattr(peers, "at_once", lambda *given: [(4.0, 0.5)])
    rows = [(row.what, row.figure) for row in until_goal(*clouds(200), pool=100)]
    assert rows[:3] == [
        ("features: scikit-learn's a, in all", 4.0),
        ("features: scikit-learn's a, accuracy at the end", 50.0),
        ("features: scikit-learn's a, until 60%", float("inf")),
    ]
    assert [figure for _, figure in rows[3:6]] == [3.0, 50.0, 2.0]
    assert len(rows) == 9
