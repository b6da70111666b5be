import numpy as np
import pytest

from surelabel.data.drawn import drawn_per_class


@pytest.mark.parametrize(
    ("counts", "guess"),
    [((3, 3), True), ((0, 3, 3), True), ((3, 4), False), ((1, 1, 1), False), ((5,), False), ((), False)],
)
def test_equally_many_labels_of_several_classes_are_drawn_per_class(counts, guess):
    labels = np.repeat(np.arange(len(counts)), counts)
    assert drawn_per_class("auto", labels) is guess
    assert drawn_per_class("per-class", labels)
    assert not drawn_per_class("random", labels)
