import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from surelabel.data.tables.encoding import FEW_ROWS, MOST_LEVELS, Encoding, check_numbers, learn
from surelabel.utils.errors import UserError


def texts(*values: str) -> np.ndarray:
    return np.array(values, dtype=object)


def table(rows: int = 60, seed: int = 0):
    random = np.random.default_rng(seed)
    holes = random.normal(50, 10, rows)
    holes[random.random(rows) < 0.2] = np.nan
    return {
        "size": random.normal(1e9, 5, rows),
        "holes": holes,
        "colour": np.array(random.choice(["red", "green", ""], rows), dtype=object),
    }


def test_numbers_are_standardised_and_categories_one_hot_as_scikit_learn_has_them():
    train, new = table(), table(20, seed=1)
    encoded = learn(train)[0].encode(new)
    colours = OneHotEncoder(categories=[["green", "red"]], handle_unknown="ignore", sparse_output=False)
    theirs = ColumnTransformer(
        [("size", StandardScaler(), [0]), ("colour", make_pipeline(colours), [2])], sparse_threshold=0
    )
    as_array = [np.stack([t["size"], t["holes"], t["colour"]], axis=1, dtype=object) for t in (train, new)]
    expected = theirs.fit(as_array[0]).transform(as_array[1]).astype(float)
    np.testing.assert_allclose(encoded[:, 0], expected[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(encoded[:, 3:5], expected[:, 1:])
    np.testing.assert_array_equal(encoded[:, 5], expected[:, 1:].sum(1) == 0)


def test_a_missing_number_becomes_the_median_and_is_told_by_a_column_of_its_own():
    train, new = table(), table(20, seed=1)
    encoded = learn(train)[0].encode(new)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(train["holes"][:, None])
    filled, missing = imputer.transform(new["holes"][:, None]).T
    known = train["holes"][~np.isnan(train["holes"])]
    np.testing.assert_allclose(encoded[:, 1], (filled - known.mean()) / known.std(), rtol=1e-5)
    np.testing.assert_array_equal(encoded[:, 2], missing)
    assert missing.any()


def test_without_missing_values_in_training_there_is_no_column_for_them():
    encoding, _ = learn({"a": np.arange(5.0)})
    assert encoding.encode({"a": np.array([np.nan, 1.0])}).tolist() == [[0.0], [pytest.approx(-(2**-0.5))]]


@given(st.permutations(["size", "holes", "colour", "extra"]))
def test_the_order_of_columns_and_additional_ones_do_not_matter(order):
    encoding, _ = learn(table())
    new = table(9, seed=2) | {"extra": np.arange(9.0)}
    np.testing.assert_array_equal(encoding.encode(new), encoding.encode({name: new[name] for name in order}))


def test_an_encoding_survives_json_exactly():
    encoding, _ = learn(table())
    again = Encoding.from_json(json.loads(json.dumps(encoding.as_json())))
    assert again == encoding
    np.testing.assert_array_equal(again.encode(table(9)), encoding.encode(table(9)))


def test_groups_and_kinds_of_the_encoded_columns():
    encoding, _ = learn(table())
    assert encoding.groups.tolist() == [0, 1, 1, 2, 2, 2]
    assert encoding.standardised.tolist() == [True, True, False, False, False, False]


def test_a_column_that_the_training_table_had_must_be_there():
    with pytest.raises(UserError, match="lacks the column 'holes', which the network was trained on; it has 'size'"):
        learn(table())[0].encode({"size": np.zeros(2), "colour": texts("a", "b")})


def test_text_where_training_had_numbers_is_told_by_cell_and_numbers_as_text_are_read():
    encoding, _ = learn({"a": np.arange(5.0)})
    np.testing.assert_array_equal(
        encoding.encode({"a": texts("1", "", "3")}), encoding.encode({"a": np.array([1, np.nan, 3])})
    )
    with pytest.raises(UserError, match="column 'a' was numbers in training, but is 'many' in row 2 below the heading"):
        encoding.encode({"a": texts("1", "many")})


def test_numbers_declared_as_categories_are_levels():
    encoding, _ = learn({"code": np.array([10.0, 20.0, 10.0])}, ["code"])
    assert encoding.encode({"code": np.array([20.0, 30.0, np.nan])}).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    with pytest.raises(UserError, match="no column 'kode' to be categorical"):
        learn({"code": np.arange(3.0)}, ["kode"])


def names(count: int) -> np.ndarray:
    return texts(*(f"row {number}" for number in range(count)))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.full(20, np.nan), "it has no values"),
        (texts(*[""] * 20), "it has no values"),
        (np.full(20, 3.5), "it is 3.5 everywhere"),
        (texts(*["x"] * 20), "it is 'x' everywhere"),
        (names(20), "no two of its texts are the same"),
    ],
)
def test_a_column_that_cannot_help_is_left_out_and_said(values, reason):
    encoding, notes = learn({"useful": np.arange(20.0), "odd": values})
    assert [column.name for column in encoding.columns] == ["useful"]
    assert notes == (f"column 'odd' is left out: {notes[0].split(': ')[1]}",)
    assert reason in notes[0]
    with pytest.raises(UserError, match="no column to learn from"):
        learn({"odd": values})


def test_few_different_texts_are_categories_and_so_are_identifiers_that_were_declared():
    assert learn({"a": names(FEW_ROWS)})[0].columns[0].width == FEW_ROWS + 1
    assert learn({"a": names(20)}, ["a"])[0].columns[0].width == 21


def test_of_too_many_levels_the_most_frequent_are_told_apart():
    values = texts(*(f"{number:03}" for number in range(100) for _ in range(1 + (number >= 50) + (number == 7))))
    encoding, notes = learn({"a": values})
    assert len(encoding.columns[0].levels) == MOST_LEVELS
    assert {"007", *(f"{number:03}" for number in range(50, 100))} <= set(encoding.columns[0].levels)
    assert "100 different texts: the 64 most frequent are told apart" in notes[0]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["1.5", "2", "n.d.", "", "3e-4"], "'n.d.' in row 3 below the heading (1 such cells of 4)"),
        (["12,5", "13,1", "11,9"], "'12,5' in row 1 below the heading (3 such cells of 3)"),
        (["1,065", "990", "1,280.5"], "'1,065' in row 1 below the heading (2 such cells of 3)"),
        (["<0.1", "0.3", "5 %", "none"], "'<0.1' in row 1 below the heading (3 such cells of 4)"),
    ],
)
def test_numbers_with_other_texts_among_them_are_refused_unless_they_are_declared_as_names(cells, shown):
    with pytest.raises(UserError, match=re.escape(shown)):
        check_numbers({"b": np.arange(5.0), "a": texts(*cells)}, ["b"], "mend it")
    check_numbers({"a": texts(*cells)}, ["a"], "mend it")


@pytest.mark.parametrize(
    "cells", [["A1", "7", "B2", "8"], ["1.2.3", "1.3.0"], ["2020-01-02", "2021-03-04"], ["1", "2"]]
)
def test_names_with_digits_in_them_are_names(cells):
    check_numbers({"a": texts(*cells)}, [], "mend it")


def test_a_value_too_large_to_compute_with_is_refused_by_row():
    with pytest.raises(UserError, match=r"column 'a' is 1\.79769e\+308 in row 2 below the heading, too large"):
        learn({"a": np.array([1.0, np.finfo(float).max, 2.0, np.nan])})


def test_infinity_is_refused_by_row():
    with pytest.raises(UserError, match="column 'a' is infinite in row 3 below the heading"):
        learn({"a": np.array([1, 2, np.inf])})
    with pytest.raises(UserError, match="column 'a' is infinite in row 2 below the heading"):
        learn({"a": np.arange(3.0)})[0].encode({"a": np.array([0, np.inf])})
