import numpy as np

from surelabel.data.part import Subset


def test_a_part_has_the_samples_of_its_rows_and_the_classes_of_the_whole(digits_data):
    whole = digits_data.train
    rows = np.array([7, 3, 900])
    part = Subset(whole, rows)
    assert (len(part), part.classes, part.shape) == (3, whole.classes, whole.shape)
    assert (part.labels == whole.labels[rows]).all()
    assert (part.samples(np.array([2, 0])) == whole.samples(rows[[2, 0]])).all()
