import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data import folds
from surelabel.data.folds import ALWAYS_SEEN, draw_folds, near_duplicates

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


def test_rows_of_few_numbers_share_no_group():
    assert len(set(near_duplicates(np.ones((4, 2), dtype=np.float32)).tolist())) == 4
