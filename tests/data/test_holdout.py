from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.holdout import Fold, choose_held_out, parse_holdout, without
from surelabel.data.source import DataSet, Subset
from surelabel.utils.errors import UserError

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("20%", Fraction(1, 5)), ("0.5 %", Fraction(1, 200)), ("2/5", Fold(2, 5)), ("1/2", Fold(1, 2))],
)
def test_holdout_is_a_share_or_a_part(text, meaning):
    assert parse_holdout(text) == meaning


@pytest.mark.parametrize("text", ["0%", "100%", "0/5", "6/5", "1/1", "x", "", "-5%", "20"])
def test_anything_else_is_refused(text):
    with pytest.raises(UserError, match="holdout"):
        parse_holdout(text)


@given(st.lists(st.integers(0, 2), min_size=3, max_size=60), st.integers(2, 6), st.integers(0, 5))
def test_holdout_parts_partition_the_labelled(labels, parts, seed):
    labels = np.array(labels)
    labelled = np.arange(0, len(labels), 2)
    if parts > len(labelled):
        return
    found = [choose_held_out(labels, labelled, Fold(part, parts), seed, NAMES) for part in range(1, parts + 1)]
    assert sorted(np.concatenate(found)) == labelled.tolist()
    assert np.ptp([len(part) for part in found]) <= 1
    for number in range(3):
        assert np.ptp([(labels[part] == number).sum() for part in found]) <= 2


def test_holdout_share_leaves_each_class_a_label():
    labels = np.repeat([0, 1, 2, -1], [10, 2, 1, 20])
    held = choose_held_out(labels, np.arange(13), Fraction(1, 5), 0, NAMES)
    assert np.bincount(labels[held], minlength=3).tolist() == [2, 1, 0]
    other = choose_held_out(labels, np.arange(13), Fraction(1, 5), 1, NAMES)
    assert held.tolist() != other.tolist()


def test_single_labels_cannot_be_kept_aside():
    with pytest.raises(UserError, match="a single label"):
        choose_held_out(np.arange(3), np.arange(3), Fraction(1, 2), 0, NAMES)
    with pytest.raises(UserError, match="only 3 labelled"):
        choose_held_out(np.arange(3), np.arange(3), Fold(1, 4), 0, NAMES)


GROUPED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=4, max_size=60)


@given(GROUPED, st.integers(2, 6), st.integers(0, 5))
def test_holdout_parts_hold_whole_groups(drawn, parts, seed):
    labels, groups = np.array(drawn).T
    labelled = np.arange(0, len(labels), 2)
    if parts > len(np.unique(groups[labelled])):
        with pytest.raises(UserError, match="groups with labelled samples"):
            choose_held_out(labels, labelled, Fold(1, parts), seed, NAMES, groups)
        return
    found = [choose_held_out(labels, labelled, Fold(part, parts), seed, NAMES, groups) for part in range(1, parts + 1)]
    assert sorted(np.concatenate(found)) == labelled.tolist()
    for one in found:
        assert not set(groups[one]) & set(groups[np.setdiff1d(labelled, one)])
    assert np.ptp([len(set(groups[part])) for part in found]) <= 1


@given(GROUPED, st.integers(0, 5))
def test_holdout_share_takes_whole_groups_and_leaves_each_class_a_label(drawn, seed):
    labels, groups = np.array(drawn).T
    labelled = np.arange(len(labels))
    groups[0], labels[0], groups[1], labels[1] = 10, 0, 11, 0  # so that one can be taken
    held = choose_held_out(labels, labelled, Fraction(1, 2), seed, NAMES, groups)
    kept = np.setdiff1d(labelled, held)
    assert len(held)
    assert not set(groups[held]) & set(groups[kept])
    assert set(labels[kept]) == set(labels)


def test_a_group_that_holds_a_class_alone_is_not_held_out():
    labels, groups = np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7])
    with pytest.raises(UserError, match="no group of rows"):
        choose_held_out(labels, np.arange(4), Fraction(1, 2), 0, NAMES, groups)


def test_groups_of_one_row_are_held_out_as_rows_are():
    labels = np.repeat([0, 1, 2], [30, 10, 2])
    alone, labelled = np.arange(42)[::-1], np.arange(42)
    for request in (Fraction(1, 5), Fold(2, 5)):
        expected = choose_held_out(labels, labelled, request, 0, NAMES)
        found = choose_held_out(labels, labelled, request, 0, NAMES, alone)
        np.testing.assert_array_equal(found, expected)


def test_the_rest_of_a_held_out_group_is_not_learnt(digits_data):
    source = Subset(digits_data.train, np.arange(20))
    source.groups = np.arange(20) // 2
    data, kept = without(DataSet("d", source), np.array([2, 3, 6, 7]), np.array([2]))
    assert len(data.train) == 19
    assert data.train.names(kept) == [6, 7]


def test_holdout_needs_labels_drawn_at_random():
    with pytest.raises(UserError, match="suggested"):
        choose_held_out(np.arange(3), np.arange(0), Fraction(1, 2), 0, NAMES)


def test_holdout_leaves_the_pool(digits_data):
    labelled = np.array([3, 10, 500, 1399])
    data, kept = without(digits_data, labelled, np.array([10, 1399]))
    assert len(data.train) == 1398
    assert data.test is not None
    np.testing.assert_array_equal(data.test.labels, digits_data.train.labels[[10, 1399]])
    np.testing.assert_array_equal(data.test.samples(np.arange(2)), digits_data.train.samples(np.array([10, 1399])))
    np.testing.assert_array_equal(data.train.samples(kept), digits_data.train.samples(np.array([3, 500])))
    np.testing.assert_array_equal(data.train.labels[kept], digits_data.train.labels[[3, 500]])
