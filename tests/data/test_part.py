import numpy as np

from surelabel.data.part import Part


def test_a_part_has_the_samples_of_its_rows_and_the_classes_of_the_whole(digits_data):
    whole = digits_data.train
    rows = np.array([7, 3, 900])
    part = Part(whole, rows)
    assert (len(part), part.classes, part.shape) == (3, whole.classes, whole.shape)
    assert (part.labels == whole.labels[rows]).all()
    assert (part.images(np.array([2, 0])) == whole.images(rows[[2, 0]])).all()
