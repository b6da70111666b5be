import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.folds import ALWAYS_SEEN, draw_folds

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
