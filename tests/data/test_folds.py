import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data import folds
from surelabel.data.arrays.source import ArraySource, SampleSource
from surelabel.data.folds import ALWAYS_SEEN, draw_folds, folds_of, near_duplicates

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60).map(lambda found: np.array(found, dtype=np.int64))


@given(LABELS, st.integers(2, 12), st.integers(0, 3))
def test_draw_folds_never_takes_a_class_its_last_label(labels, folds, seed):
    fold = draw_folds(labels, folds, seed)
    assert set(fold) <= {ALWAYS_SEEN, *range(folds)}
    for one in range(folds):
        assert set(labels[fold == one]) <= set(labels[fold != one])


@given(LABELS, st.integers(2, 12), st.integers(0, 3))
def test_draw_folds_spreads_labels_and_classes(labels, folds, seed):
    fold = draw_folds(labels, folds, seed)
    used = fold[fold != ALWAYS_SEEN]
    single = (fold == ALWAYS_SEEN).sum()
    sizes = np.bincount(used, minlength=folds)
    assert sizes.max() - sizes.min() <= 1 + single
    for label in np.unique(labels):
        mine = fold[(labels == label) & (fold != ALWAYS_SEEN)]
        assert len(mine) == 0 or np.bincount(mine).max() == -(-len(mine) // folds)


@given(LABELS, st.data())
def test_draw_folds_keeps_groups_together(labels, data):
    groups = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(labels), max_size=len(labels))))
    fold = draw_folds(labels, 3, groups=groups)
    for group in np.unique(groups):
        assert len(set(fold[groups == group])) == 1
    for one in range(3):
        assert set(labels[fold == one]) <= set(labels[fold != one])


def test_near_duplicates_share_a_group():
    random = np.random.default_rng(0)
    rows = random.normal(size=(8, 100)).astype(np.float32)
    rows[5] = rows[2] + 0.01 * random.normal(size=100)
    rows[7] = rows[5] + 0.01 * random.normal(size=100)
    groups = near_duplicates(rows)
    assert groups[2] == groups[5] == groups[7]
    assert len(set(groups.tolist())) == 6
    assert len(near_duplicates(rows[:1])) == 1


def test_many_rows_are_compared_in_blocks(monkeypatch):
    random = np.random.default_rng(1)
    rows = random.normal(size=(40, 100)).astype(np.float32)
    rows[25:] = rows[:15]
    whole = near_duplicates(rows)
    monkeypatch.setattr(folds, "BLOCK", 7)
    assert near_duplicates(rows).tolist() == whole.tolist()
    assert len(set(whole.tolist())) == 25


def test_large_pictures_and_their_copies_share_a_fold():
    random = np.random.default_rng(0)
    pictures = random.integers(0, 255, (24, 3, 8, 8), dtype=np.uint8).repeat(8, 2).repeat(8, 3)
    noise = random.integers(0, 3, pictures[:6].shape, dtype=np.uint8)
    pictures[12:18] = np.minimum(pictures[:6], 250) + noise
    source = ArraySource(pictures, np.repeat([0, 1], 12), ["cat", "dog"])
    fold = folds_of(source, np.arange(24), 4, seed=0)
    assert (fold[:6] == fold[12:18]).all()
    assert set(fold.tolist()) == {0, 1, 2, 3}


def test_suggested_labels_and_their_copies_are_in_no_fold():
    rows = np.arange(20, dtype=np.float32)[:, None].repeat(3, 1)
    rows[7] = rows[3]
    source = SampleSource(rows, np.arange(20) % 2, ["cat", "dog"])
    source.suggested = np.isin(np.arange(20), [3, 12])
    assert np.flatnonzero(folds_of(source, np.arange(20), 4, seed=0) == ALWAYS_SEEN).tolist() == [3, 7, 12]


def test_rows_of_few_numbers_share_a_group_only_if_equal():
    groups = near_duplicates(np.array([[1, 2], [1, 2.001], [1, 2], [5, 5]], dtype=np.float32))
    assert groups[0] == groups[2]
    assert len(set(groups.tolist())) == 3
