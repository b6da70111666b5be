import numpy as np

from surelabel.data.arrays.source import ArraySource, SampleSource
from surelabel.data.folds import ALWAYS_SEEN
from surelabel.data.label_folds import folds_of


def test_large_pictures_and_their_copies_share_a_fold():
    random = np.random.default_rng(0)
    pictures = random.integers(0, 255, (24, 3, 8, 8), dtype=np.uint8).repeat(8, 2).repeat(8, 3)
    noise = random.integers(0, 3, pictures[:6].shape, dtype=np.uint8)
    pictures[12:18] = np.minimum(pictures[:6], 250) + noise
    source = ArraySource(pictures, np.repeat([0, 1], 12), ["cat", "dog"])
    fold = folds_of(source, np.arange(24), 4, seed=0)
    assert (fold[:6] == fold[12:18]).all()
    assert set(fold.tolist()) == {0, 1, 2, 3}


def test_suggested_labels_are_in_a_fold_only_with_a_copy_that_was_drawn_at_random():
    rows = np.random.default_rng(0).normal(size=(20, 80)).astype(np.float32)
    rows[7] = rows[3]
    source = SampleSource(rows, np.arange(20) % 2, ["cat", "dog"])
    source.suggested = np.isin(np.arange(20), [3, 12])
    fold = folds_of(source, np.arange(20), 4, seed=0)
    assert np.flatnonzero(fold == ALWAYS_SEEN).tolist() == [12]
    assert fold[3] == fold[7]
