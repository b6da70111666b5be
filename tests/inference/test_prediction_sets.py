"""Sets of classes by CV+: against a loop, by their coverage, and as functions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from surelabel.data.arrays.source import SampleSource
from surelabel.inference.prediction_sets import LabelScores, check_labels, promise
from surelabel.utils.errors import UserError

CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [1.5, 1.5]])


def drawn(random, n=30, folds=5, classes=4, samples=20, weighted=False):
    """Scores of labels, and probabilities of samples, with ties."""
    class_weights = random.uniform(0.2, 3, classes) if weighted else np.ones(classes)
    labels = random.integers(classes, size=n)
    known = LabelScores(random.random(n).round(1), random.integers(folds, size=n), class_weights[labels], class_weights)
    probs = random.dirichlet(np.ones(classes), (samples, folds)).round(1)
    return known, probs


def by_a_loop(known, probs, coverage):
    """The definition, one label at a time."""
    sets = np.zeros((len(probs), probs.shape[2]), dtype=bool)
    for x, sample in enumerate(probs):
        for k in range(probs.shape[2]):
            likelier, total = 0.0, known.class_weights[k]
            for score, fold, weight in zip(known.scores, known.fold, known.weights, strict=True):
                total += weight
                if score < 1 - sample[fold, k]:
                    likelier += weight
            sets[x, k] = likelier < coverage * total - 1e-9
    return sets


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
@settings(max_examples=50, deadline=None)
def test_sets_are_those_of_the_definition(seed, weighted, coverage):
    known, probs = drawn(np.random.default_rng(seed), weighted=weighted)
    np.testing.assert_array_equal(known.sets(probs, coverage), by_a_loop(known, probs, coverage))


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=50, deadline=None)
def test_sets_grow_with_coverage_and_do_not_depend_on_order(seed, weighted):
    random = np.random.default_rng(seed)
    known, probs = drawn(random, weighted=weighted)
    small, large = known.sets(probs, 0.7), known.sets(probs, 0.9)
    assert (small <= large).all()
    order, classes, folds = random.permutation(30), random.permutation(4), random.permutation(5)
    shuffled = LabelScores(
        known.scores[order], np.argsort(folds)[known.fold[order]], known.weights[order], known.class_weights[classes]
    )
    np.testing.assert_array_equal(shuffled.sets(probs[:, folds][..., classes], 0.9), large[:, classes])


def test_a_weight_of_two_counts_as_two_labels():
    known, probs = drawn(np.random.default_rng(0))
    twice = LabelScores(*(np.tile(part, 2) for part in (known.scores, known.fold, known.weights)), known.class_weights)
    heavy = replace(known, weights=2 * known.weights)
    np.testing.assert_array_equal(heavy.sets(probs, 0.9), twice.sets(probs, 0.9))


def nearest_means(random, shares, n, folds, samples):
    """Over-confident cross-fitted predictions of overlapping classes: those of labels, and of new samples."""

    spread = np.array([0.9, 0.4, 0.4, 0.4])  # the first class is the hard one
    labels = random.choice(4, n, p=shares[0])
    rows = CENTRES[labels] + spread[labels, None] * random.normal(size=(n, 2))
    new_labels = random.choice(4, samples, p=shares[1])
    new = CENTRES[new_labels] + spread[new_labels, None] * random.normal(size=(samples, 2))
    fold = random.permutation(n) % folds

    def predict(v, at):
        means = np.array([(rows[(fold != v) & (labels == k)].sum(0) + CENTRES.mean(0)) for k in range(4)])
        means /= np.array([((fold != v) & (labels == k)).sum() + 1 for k in range(4)])[:, None]
        return softmax(-8 * np.square(at[:, None] - means).sum(-1), axis=1)

    of_labels = np.stack([predict(v, rows) for v in range(folds)], 1)[np.arange(n), fold, labels]
    return labels, fold, of_labels, np.stack([predict(v, new) for v in range(folds)], 1), new_labels


def mean_coverage(draws, weighted, shares):
    """The mean coverage over draws of labels, and its standard error."""
    random, covered = np.random.default_rng(0), []
    weights = np.array(shares[1]) / shares[0] if weighted else np.ones(4)
    for _ in range(draws):
        labels, fold, of_labels, probs, truth = nearest_means(random, shares, 40, 10, 50)
        sets = LabelScores(1 - of_labels, fold, weights[labels], weights).sets(probs, 0.9)
        covered.append(sets[np.arange(len(truth)), truth].mean())
    return np.mean(covered), np.std(covered) / draws**0.5


def test_sets_hold_the_right_class_as_often_as_asked():
    """On average over draws of 40 labels. If the coverage were just 90 %, the test would fail in 0.1 % of cases."""
    even = [[0.25] * 4] * 2
    mean, error = mean_coverage(600, False, even)
    assert mean > 0.9 - 3.1 * error
    assert mean < 0.97  # they are not trivial


def test_weights_bring_the_coverage_of_labels_drawn_per_class():
    """Where the hard class is thrice as frequent in the pool as among the labels; error rates as above."""
    shares = [[0.25] * 4, [0.76, 0.08, 0.08, 0.08]]
    mean, error = mean_coverage(600, True, shares)
    assert mean > 0.9 - 3.1 * error
    without, error = mean_coverage(600, False, shares)
    assert without < 0.9 - 3.1 * error  # the labels alone do not tell


def scores_of(n, weights=(1.0, 1.0)):
    fold = np.arange(n) % 10
    return LabelScores(np.linspace(0, 0.5, n), fold, np.full(n, 1.0), np.array(weights))


@pytest.mark.parametrize(("coverage", "needed"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_labels_are_an_error_that_says_how_many_it_takes(coverage, needed):
    certain = np.tile([1.0, 0.0], (1, 10, 1))
    enough = scores_of(needed)
    enough.check_enough(coverage)
    assert not enough.sets(certain, coverage)[0, 1]
    if needed > 1:
        few = scores_of(needed - 1)
        assert few.sets(certain, coverage).all()
        with pytest.raises(UserError, match=rf"at least {needed} labels.*there are {needed - 1}: label more"):
            few.check_enough(coverage)


def test_labels_that_cannot_be_left_out_do_not_count():
    """Ten labels, of which one is the only one of its class, and two were suggested."""
    train = SampleSource(np.zeros((100, 2)), [0, 0, 0, 1, 1, 1, 2, 3, 3, 3, *[-1] * 90])
    train.suggested = np.isin(np.arange(100), [8, 9])
    labelled = np.arange(10)
    check_labels(train, labelled, 7 / 8)
    with pytest.raises(UserError, match=r"there are 7: label more, or ask for 0\.8"):
        check_labels(train, labelled, 0.9)


def test_a_frequent_class_needs_more_labels():
    with pytest.raises(UserError, match=r"at least 27 labels.*or ask for 0.8"):
        scores_of(20, (3.0, 1.0)).check_enough(0.9)


def test_guarantee_has_the_slack_of_folds():
    assert scores_of(100).guarantee(0.9) == pytest.approx(0.8 - (1 - 10 / 100) / 11)
    assert scores_of(1000).guarantee(0.9) == pytest.approx(0.8 - 2 * 0.9 / 101)
    assert scores_of(10).guarantee(0.9) == pytest.approx(0.8)  # one label a fold: the jackknife+
    assert scores_of(100, (2.0, 1.0)).guarantee(0.9) is None


def test_promise_names_coverage_and_guarantee():
    sizes = np.array([0, 1, 1])
    words = promise(scores_of(100), 0.9, sizes)
    for part in ("about 90%", "CV+ guarantees 72%, for labels drawn at random", "1.50 classes", "1 of 2 have one"):
        assert part in words
    assert "nothing is guaranteed" in promise(scores_of(100, (2.0, 1.0)), 0.9, sizes)
