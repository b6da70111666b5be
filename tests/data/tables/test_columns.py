import numpy as np
import pandas as pd
import pytest

from surelabel.data.tables.columns import MISSING, as_texts, column, numeric


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 2], dtype=np.int8), [1.0, 2.0]),
        (np.array([1.5, np.nan]), [1.5, np.nan]),
        (np.array([1, None, np.float32(2)], dtype=object), [1.0, np.nan, 2.0]),
        (np.array([pd.NA, 3], dtype=object), [np.nan, 3.0]),
    ],
)
def test_column_keeps_numbers_with_nan_for_missing(values, expected):
    made = column(values)
    assert numeric(made)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, *MISSING])
def test_column_makes_missing_texts_empty(missing):
    assert column(np.array(["a", missing, " b "], dtype=object)).tolist() == ["a", "", "b"]


def test_column_takes_booleans_as_texts_and_rejects_dates():
    assert column(np.array([True, False])).tolist() == ["True", "False"]
    assert column(np.array([True, None], dtype=object)).tolist() == ["True", ""]
    assert column(np.array(["2020-01-01"], dtype="datetime64[D]")) is None


def test_as_texts_writes_integers_without_a_point():
    assert as_texts(np.array([1.0, -2.0, 0.5, np.nan])).tolist() == ["1", "-2", "0.5", ""]
