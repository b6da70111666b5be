from functools import partial
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import LabelEncoder

from surelabel.data.labels import number_labels
from surelabel.data.tables.columns import MISSING
from surelabel.utils.errors import UserError

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=3).map(partial(normalize, "NFC"))


@given(st.lists(NAMES.filter(lambda name: name not in ("-1", *MISSING)), min_size=1))
def test_number_labels_equals_label_encoder(names):
    encoder = LabelEncoder().fit(names)
    labels, classes, _ = number_labels(names, None, len(names))
    np.testing.assert_array_equal(labels, encoder.transform(names))
    assert classes == tuple(encoder.classes_)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32", "float64"])
def test_number_labels_accepts_any_integer_type(dtype):
    labels, classes, _ = number_labels(np.array([2, 0, 1, 2], dtype=dtype), None, 4)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, [2, 0, 1, 2])
    assert classes == ("0", "1", "2")


def test_number_labels_takes_minus_one_as_unlabelled():
    np.testing.assert_array_equal(number_labels([1, -1, 0], None, 3)[0], [1, -1, 0])
    np.testing.assert_array_equal(number_labels(["dog", -1, "cat"], None, 3)[0], [1, -1, 0])
    np.testing.assert_array_equal(number_labels(np.array(["dog", -1, "cat"], dtype=object), None, 3)[0], [1, -1, 0])


def test_number_labels_takes_words_for_unlabelled_unless_they_are_declared():
    labels, classes, notes = number_labels(["dog", "", "?", "Unknown", "dog "], None, 5)
    assert (labels.tolist(), classes) == ([0, -1, -1, -1, 0], ("dog",))
    assert len(notes) == 3
    labels, classes, notes = number_labels(["unknown", "?", "dog "], ["dog", "unknown"], 3)
    assert (labels.tolist(), notes) == ([1, -1, 0], ())


def test_number_labels_without_labels_keeps_class_names():
    labels, classes, _ = number_labels(None, ["a", "b"], 3)
    np.testing.assert_array_equal(labels, [-1, -1, -1])
    assert classes == ("a", "b")


def test_number_labels_uses_the_order_of_given_classes():
    np.testing.assert_array_equal(number_labels(["cat", "dog"], ["dog", "cat"], 2)[0], [1, 0])


def test_number_labels_accepts_a_column():
    np.testing.assert_array_equal(number_labels(np.array([[1], [0]]), None, 2)[0], [1, 0])


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, 1, 7], ["a", "b"], r"sample 2 is 7, outside 0 to 1"),
        ([0, -2, 1], None, r"sample 1 is -2, outside"),
        ([0, 1.5, 1], None, r"sample 1 is 1\.5, which is not an integer"),
        ([0, 1, np.nan], None, r"sample 2 is nan"),
        ([0, 1, np.inf], None, r"sample 2 is inf"),
        (np.array([0, 1, 2**64 - 1], dtype=np.uint64), ["a", "b"], r"sample 2 is 18446744073709551615"),
        ([0, 10**9, 1], None, r"sample 1 is 1000000000, too large for a class number"),
        (["a", "b", "c"], ["a", "b"], r"sample 2 is 'c', not one of the 2 classes \(a, b\)"),
        (["a", "NA", "c"], None, r"NA may be a class or mean unlabelled"),
        (np.array(["a", None, "b"], dtype=object), None, r"sample 1 is None"),
        ([0j, 1j, 1], None, r"not complex128"),
        ([0, 1], None, r"3 images but 2 labels"),
        ([[0, 1], [0, 1], [0, 1]], None, r"3 images but 3x2 labels"),
        ([0, 1, 0], ["a", "a"], r"class names must be unique"),
        ([0, 1, 0], ["a", ""], r"and not empty, but are a, $"),
        ([0, 1, 0], [], r"no classes are given"),
    ],
)
def test_number_labels_rejects_wrong_labels(labels, classes, message):
    with pytest.raises(UserError, match=message):
        number_labels(labels, classes, 3)


def test_number_labels_checks_in_chunks(monkeypatch):
    monkeypatch.setattr("surelabel.data.labels.CHUNK", 2)
    assert number_labels([0, 3, 1, -1, 2], None, 5)[1] == ("0", "1", "2", "3")
    with pytest.raises(UserError, match="sample 4 is 9, outside"):
        number_labels([0, 1, 0, 1, 9], ["a", "b"], 5)


def test_number_labels_copies_writable_arrays_only(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([0, 1, -1]))
    mapped = np.load(tmp_path / "labels.npy", mmap_mode="r")
    assert np.shares_memory(number_labels(mapped, None, 3)[0], mapped)
    mine = np.array([0, 1, -1])
    assert not np.shares_memory(number_labels(mine, None, 3)[0], mine)
