import math
from dataclasses import asdict
from functools import reduce
from itertools import pairwise
from operator import add

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, recall_score

from surelabel import equations
from surelabel.training import metrics
from surelabel.utils.errors import UserError


def predictions(samples=400, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    probs = (2 * torch.randn(samples, classes, generator=generator)).softmax(-1)
    return probs, torch.randint(classes, (samples,), generator=generator)


def parts_of(*tensors, cuts):
    edges = [0, *sorted(cuts), len(tensors[0])]
    return [tuple(t[a:b] for t in tensors) for a, b in pairwise(edges)]


CUTS = st.lists(st.integers(1, 399), max_size=12, unique=True)


@given(CUTS)
def test_calibration_sums_add_up_over_any_split(cuts):
    probs, labels = predictions()
    whole = metrics.calibration_sums(probs, labels)
    total = reduce(add, [metrics.calibration_sums(*part) for part in parts_of(probs, labels, cuts=cuts)])
    for name, tensor in asdict(whole).items():
        torch.testing.assert_close(asdict(total)[name], tensor, rtol=1e-12, atol=1e-12)
    assert torch.equal(total.bins[[0, 2]], whole.bins[[0, 2]])
    assert total.metrics() == pytest.approx(whole.metrics(), abs=1e-12)


@given(CUTS)
def test_selection_sums_add_up_over_any_split(cuts):
    probs, labels = predictions()
    labels[::3] = -1
    mask = torch.where(probs.amax(-1) > 0.6, probs[:, 0], 0)
    total = reduce(add, [metrics.selection_sums(*part) for part in parts_of(probs, mask, labels, cuts=cuts)])
    assert total.metrics() == pytest.approx(metrics.selection_sums(probs, mask, labels).metrics(), abs=1e-12)


def test_sums_add_up_over_ranks():
    sums = [metrics.calibration_sums(*predictions(seed=seed)) for seed in (0, 1)]
    reduced = {name: sum(asdict(part)[name] for part in sums) for name in asdict(sums[0])}
    assert metrics.CalibrationSums(**reduced).metrics() == (sums[0] + sums[1]).metrics()


def test_sums_never_read_from_the_device():
    # A tensor on the meta device has no values: reading one raises.
    probs, labels = torch.empty(8, 5, device="meta"), torch.empty(8, device="meta", dtype=torch.int64)
    calibration = metrics.calibration_sums(probs, labels)
    selection = metrics.selection_sums(probs, labels > 0, labels)
    assert (calibration + calibration).bins.shape == (3, 10)
    assert (selection + selection).seen.shape == ()
    with pytest.raises((RuntimeError, NotImplementedError)):
        calibration.metrics()


def test_evaluation_equals_the_equations():
    probs, labels = predictions()
    found = metrics.evaluation(probs, labels)
    expected = {
        "accuracy": accuracy_score(labels, probs.argmax(-1)),
        "ece": equations.ece(probs, labels).item(),
        "ece_classwise": equations.classwise_ece(probs, labels).item(),
        "ece_equal_mass": equations.equal_mass_ece(probs, labels).item(),
        "mce": equations.mce(probs, labels).item(),
        "nll": equations.nll(probs, labels).item(),
        "brier": equations.brier(probs, labels).item(),
        "aurc": equations.aurc(probs, labels).item(),
        "confidence": probs.amax(-1).double().mean().item(),
    }
    assert found == pytest.approx(expected, abs=1e-12)
    assert all(type(value) is float for value in found.values())


def test_per_class_gives_recall_and_confidence():
    probs, labels = predictions()
    rows = metrics.per_class(probs, labels)
    assert [row["count"] for row in rows] == torch.bincount(labels).tolist()
    assert [row["accuracy"] for row in rows] == pytest.approx(
        recall_score(labels, probs.argmax(-1), average=None).tolist()
    )
    confidence = [probs[labels == k].amax(-1).double().mean().item() for k in range(5)]
    assert [row["confidence"] for row in rows] == pytest.approx(confidence)


def test_per_class_without_samples_is_none():
    rows = metrics.per_class(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    assert rows[0] == {"count": 2, "accuracy": 0.5, "confidence": pytest.approx(0.85)}
    assert rows[1] == {"count": 0, "accuracy": None, "confidence": None}


def test_selection_sums_by_hand():
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    sums = metrics.selection_sums(probs, torch.tensor([True, True, True, False]), torch.tensor([0, 1, -1, 0]))
    by_hand = math.exp(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    expected = {"purity": 1 / 2, "acceptance": 3 / 4, "effective_classes": by_hand, "confidence": 3 / 4}
    assert sums.metrics() == pytest.approx(expected)


def test_selection_sums_count_weights():
    probs = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.3, 0.7, 0.0], [0.0, 0.4, 0.6]])
    weights, labels = torch.tensor([1.0, 0.5, 0.25, 0.0]), torch.tensor([0, 1, 1, 2])
    found = metrics.selection_sums(probs, weights, labels).metrics()
    shares = [1.5 / 1.75, 0.25 / 1.75]
    assert found["acceptance"] == pytest.approx(1.75 / 4)
    assert found["purity"] == pytest.approx(1.25 / 1.75)
    assert found["effective_classes"] == pytest.approx(math.exp(-sum(share * math.log(share) for share in shares)))
    assert metrics.selection_sums(probs, 0 * weights, labels).metrics()["effective_classes"] is None


@pytest.mark.parametrize("classes", [2, 7])
def test_effective_classes_are_all_if_accepted_alike_and_one_if_one(classes):
    probs = torch.eye(classes).repeat(3, 1)
    labels = probs.argmax(1)
    assert metrics.selection_sums(probs, labels >= 0, labels).metrics()["effective_classes"] == pytest.approx(classes)
    assert metrics.selection_sums(probs, labels == 0, labels).metrics()["effective_classes"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("probs", "labels", "says"),
    [
        (torch.empty(0, 3), torch.empty(0, dtype=torch.int64), "at least one"),
        (torch.full((2, 2), 0.5), torch.tensor([0]), "one label per sample"),
        (torch.full((2, 2), 0.5), torch.tensor([0, -1]), "known"),
        (torch.full((2, 2), 0.5), torch.tensor([0, 2]), "outside 0..1"),
        (torch.tensor([[3.0, -2.0]]), torch.tensor([0]), "not probabilities"),
        (torch.tensor([[0.5, float("nan")]]), torch.tensor([0]), "not probabilities"),
        (torch.tensor([[float("inf"), 0.0]]), torch.tensor([0]), "not probabilities"),
    ],
)
def test_evaluation_rejects_bad_input(probs, labels, says):
    for function in (metrics.evaluation, metrics.per_class):
        with pytest.raises(UserError, match=says):
            function(probs, labels)


def test_evaluation_accepts_half_precision():
    probs, labels = predictions()
    exact = metrics.evaluation(probs, labels)
    assert metrics.evaluation(probs.bfloat16(), labels)["nll"] == pytest.approx(exact["nll"], rel=1e-2)


@pytest.mark.parametrize(
    ("accepted", "known", "purity"),
    [(False, 4, None), (True, 0, None), (True, 2, None), (True, 3, 1 / 3), (True, 4, 1 / 4)],
)
def test_purity_needs_most_labels(accepted, known, purity):
    probs = torch.tensor([[0.9, 0.1]] * 4)
    labels = torch.tensor([0, 1, 1, 1]).where(torch.arange(4) < known, -1)
    found = metrics.selection_sums(probs, torch.full((4,), accepted), labels).metrics()
    assert found["purity"] == (None if purity is None else pytest.approx(purity))
    assert found["acceptance"] == accepted
