"""What is said of a run's confidence from labels that were left out, and how often it is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from surelabel.equations import ece, ece_of_bins
from surelabel.inference.learners import Joined
from surelabel.inference.trained_run import load
from surelabel.inference.trust import LeftOut, Trust, lower_bound, more_labels
from surelabel.inference.trust_words import describe
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder


def calibrated(count, random):
    """Samples of two classes, of which one is right with the probability that it says: confidences of 0.5 to 1."""
    confidence = random.uniform(0.5, 1, count)
    probs = np.stack([confidence, 1 - confidence], 1)
    labels = (random.random(count) > confidence).astype(np.int64)
    return probs, labels


def left_out(count, random):
    probs, labels = calibrated(count, random)
    return LeftOut(np.arange(count), labels, probs, rank=2 * (1 - probs.max(1)), weights=np.ones(count))


def test_bounds_hold_for_any_threshold_chosen_by_looking():
    """In at most 5 % of draws is any bound of the curve above the truth.

    With a true rate of 5 %, the test fails in 0.1 % of all draws of 1,000.
    """
    random = np.random.default_rng(0)
    pool = np.linspace(0.5, 1, 2000)
    wrong = 0
    for _ in range(1000):
        trust = Trust(left_out(100, random), pool)
        wrong += any(point.least > point.precision for point in trust.curve(100))
    assert binomtest(wrong, 1000, 0.05, alternative="greater").pvalue > 0.001
    assert wrong  # they are not trivial


def test_intervals_of_accuracy_and_gap_hold():
    """Each holds in about 95 % of draws; with a true rate of 92 %, the test fails in 0.1 % of all draws of 1,000."""
    random = np.random.default_rng(1)
    held = np.zeros(2)
    for _ in range(1000):
        known = left_out(60, random)
        low, high = known.interval
        gap, half = known.gap
        held += (low <= 0.75 <= high, abs(gap) <= half)
    for count in held:
        assert binomtest(int(count), 1000, 0.92, alternative="less").pvalue > 0.001


def test_accept_takes_as_many_as_keep_the_precision():
    confidence = np.array([0.5, 0.9, 0.99, 0.7, 0.95])
    trust = Trust(left_out(50, np.random.default_rng(0)), confidence)
    chosen = trust.accept(0.9)
    assert (chosen.count, chosen.threshold) == (3, 0.9)
    assert chosen.precision == pytest.approx(np.mean([0.99, 0.95, 0.9]))
    assert trust.accept(0.999).count == 0
    assert trust.accept(0.5).count == 5
    assert [point.count for point in trust.curve(5)] == [1, 2, 3, 4, 5]


def test_labels_that_are_not_independent_widen_the_intervals_but_not_the_margin():
    known = left_out(80, np.random.default_rng(0))
    shared = replace(known, variance=2.0)
    assert (shared.effective, shared.size) == (80, 40)
    assert shared.interval[0] < known.interval[0] < known.interval[1] < shared.interval[1]
    pool = np.linspace(0.5, 1, 500)
    assert Trust(shared, pool).accept(0.9) == Trust(known, pool).accept(0.9)


def test_lower_bound_is_that_of_clopper_and_pearson():
    # The exact one-sided interval at 1 - 0.05 / 10, by another implementation.
    expected = binomtest(40, 45, alternative="greater").proportion_ci(0.995, method="exact").low
    assert lower_bound(40, 45) == pytest.approx(expected)
    assert lower_bound(0, 5) == lower_bound(0, 0) == 0


def test_left_out_metrics():
    probs = np.array([[0.9, 0.1], [0.4, 0.6], [0.98, 0.02], [0.3, 0.7]])
    known = LeftOut(np.arange(4), np.array([0, 0, 1, 1]), probs, np.zeros(4), np.ones(4))
    assert known.accuracy == 0.5
    assert known.gap[0] == pytest.approx(np.mean([0.9, 0.6, 0.98, 0.7]) - 0.5)
    assert known.nll == pytest.approx(-np.log([0.9, 0.4, 0.02, 0.7]).mean())
    assert known.recall(3) == [(1, 2), (1, 2), (0, 0)]
    assert known.doubtful().tolist() == [2]


def test_describe_says_what_can_be_accepted_and_which_labels_to_check():
    random = np.random.default_rng(0)
    trust = Trust(left_out(80, random), random.uniform(0.5, 1, 500))
    words = describe(trust, 0.9, [f"{i}.png" for i in range(80)], ["cat", "dog"])
    assert "80 labels, each predicted by networks that had not seen it" in words[0]
    assert words[2].startswith("Of 500 unlabelled samples, accept the")
    assert "of them should be right (at least" in words[2]
    assert more_labels(trust, trust.accept(0.9)) > 100
    many = Trust(replace(trust.known, labels=np.zeros(80, dtype=np.int64)), trust.confidence)  # all right
    assert more_labels(many, replace(many.accept(0.9), least=0.89)) == 0
    none = describe(Trust(trust.known, np.full(9, 0.5)), 0.9, [""] * 80, ["cat", "dog"])
    assert "No unlabelled sample can be accepted if 90% are to be right" in none[2]


def test_describe_names_the_classes_that_the_accuracy_leaves_out():
    known = left_out(80, np.random.default_rng(0))
    names, pool = [""] * 80, np.linspace(0.5, 1, 100)
    assert not any("without" in words for words in describe(Trust(known, pool), 0.9, names, ["cat", "dog"]))
    more = replace(known, probs=np.hstack([known.probs, np.zeros((80, 2))]))
    words = describe(Trust(more, pool), 0.9, names, ["cat", "dog", "cow", "hen"])
    assert words[2].startswith("That is without the classes cow, hen, of which no label could be left out")
    assert words[3].startswith("Of 100 unlabelled samples")


def test_describe_says_how_many_labels_a_bound_takes_where_there_is_none():
    known = replace(left_out(40, np.random.default_rng(0)), rank=np.linspace(0.5, 1, 40))
    found = Trust(known, np.linspace(1, 0.5, 1000))
    wanted = found.accept(0.95)
    assert wanted.labels == 0
    words = describe(found, 0.95, [""] * 40, ["cat", "dog"])[2]
    assert "no share is certain" in words
    assert f"some {more_labels(found, wanted):,} more labels" in words
    # As many as are needed among the accepted, whose share of the pool is known.
    among = (40 + more_labels(found, wanted)) * wanted.count / 1000
    assert lower_bound(round(wanted.precision * among), among) == pytest.approx(wanted.precision - 0.05, abs=0.02)


def test_calibration_error_needs_many_labels():
    many, few = (left_out(count, np.random.default_rng(0)) for count in (500, 499))
    assert few.bins is None
    found = ece_of_bins(many.bins)
    assert found == pytest.approx(float(ece(torch.from_numpy(many.probs), torch.from_numpy(many.labels))))
    pool = np.linspace(0.5, 1, 100)
    assert f"(ECE) of these labels {found:.3f}" in " ".join(describe(Trust(many, pool), 0.9, [""] * 500, "ab"))
    assert "ECE" not in " ".join(describe(Trust(few, pool), 0.9, [""] * 499, "ab"))
    twice = replace(many, weights=np.where(np.arange(500) < 250, 2.0, 0.0))
    assert twice.bins is None  # 250 labels of equal weight


def test_describe_compares_and_says_how_learners_were_joined():
    trust = Trust(left_out(80, np.random.default_rng(0)), np.linspace(0.5, 1, 100), Joined((0.6, 0.2), 0.71, 2.3))
    words = " ".join(describe(trust, 0.9, [""] * 80, ["cat", "dog"]))
    assert f"Log loss of these labels {trust.known.nll:.2f}; 0.71 by logistic regression" in words
    assert "2.30 by the class shares alone" in words
    assert "75% what the pool has taught, 25% the labels alone; temperature 1.25" in words


def test_describe_a_pool_where_every_sample_has_a_label():
    trust = Trust(left_out(30, np.random.default_rng(0)), np.empty(0))
    assert describe(trust, 0.9, [""] * 30, ["cat", "dog"])[2].startswith("Every sample has a label")
    assert trust.curve() == []


def test_trust_is_for_runs_that_leave_labels_out(tiny):
    with pytest.raises(UserError, match="cross-fit it, or use sure"):
        _ = load(fit_folder(replace(tiny, steps=1)).path).trust
