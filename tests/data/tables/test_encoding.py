import json

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


def test_encode_equals_scikit_learn():
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


def test_encode_imputes_the_median_with_an_indicator():
    train, new = table(), table(20, seed=1)
    encoded = learn(train)[0].encode(new)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(train["holes"][:, None])
    filled, missing = imputer.transform(new["holes"][:, None]).T
    known = train["holes"][~np.isnan(train["holes"])]
    np.testing.assert_allclose(encoded[:, 1], (filled - known.mean()) / known.std(), rtol=1e-5)
    np.testing.assert_array_equal(encoded[:, 2], missing)
    assert missing.any()


def test_encode_has_no_indicator_without_missing_values_in_training():
    encoding, _ = learn({"a": np.arange(5.0)})
    assert encoding.encode({"a": np.array([np.nan, 1.0])}).tolist() == [[0.0], [pytest.approx(-(2**-0.5))]]


@given(st.permutations(["size", "holes", "colour", "extra"]))
def test_encode_ignores_column_order_and_extra_columns(order):
    encoding, _ = learn(table())
    new = table(9, seed=2) | {"extra": np.arange(9.0)}
    np.testing.assert_array_equal(encoding.encode(new), encoding.encode({name: new[name] for name in order}))


def test_encoding_survives_json_exactly():
    encoding, _ = learn(table())
    again = Encoding.from_json(json.loads(json.dumps(encoding.as_json())))
    assert again == encoding
    np.testing.assert_array_equal(again.encode(table(9)), encoding.encode(table(9)))


def test_encoding_groups_and_standardised():
    encoding, _ = learn(table())
    assert encoding.groups.tolist() == [0, 1, 1, 2, 2, 2]
    assert encoding.standardised.tolist() == [True, True, False, False, False, False]


def test_encode_names_a_missing_column():
    with pytest.raises(UserError, match=r"lacks the column 'holes', .* it has 'size'"):
        learn(table())[0].encode({"size": np.zeros(2), "colour": texts("a", "b")})


def test_encode_reads_numbers_from_texts_and_rejects_words():
    encoding, _ = learn({"a": np.arange(5.0)})
    np.testing.assert_array_equal(
        encoding.encode({"a": texts("1", "", "3")}), encoding.encode({"a": np.array([1, np.nan, 3])})
    )
    with pytest.raises(UserError, match="column 'a' was numeric in training, but is 'many' in row 2"):
        encoding.encode({"a": texts("1", "many")})


def test_learn_takes_declared_numbers_as_categories():
    encoding, _ = learn({"code": np.array([10.0, 20.0, 10.0])}, ["code"])
    assert encoding.encode({"code": np.array([20.0, 30.0, np.nan])}).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    with pytest.raises(UserError, match="categorical column 'kode' does not exist"):
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
        (names(20), "all its texts differ"),
    ],
)
def test_learn_leaves_out_useless_columns_with_a_note(values, reason):
    encoding, notes = learn({"useful": np.arange(20.0), "odd": values})
    assert [column.name for column in encoding.columns] == ["useful"]
    assert notes == (f"column 'odd' is left out: {notes[0].split(': ')[1]}",)
    assert reason in notes[0]
    with pytest.raises(UserError, match="no column to learn from"):
        learn({"odd": values})


def test_learn_keeps_few_or_declared_unique_texts():
    assert learn({"a": names(FEW_ROWS)})[0].columns[0].width == FEW_ROWS + 1
    assert learn({"a": names(20)}, ["a"])[0].columns[0].width == 21


def test_learn_keeps_the_most_frequent_levels():
    values = texts(*(f"{number:03}" for number in range(100) for _ in range(1 + (number >= 50) + (number == 7))))
    encoding, notes = learn({"a": values})
    assert len(encoding.columns[0].levels) == MOST_LEVELS
    assert {"007", *(f"{number:03}" for number in range(50, 100))} <= set(encoding.columns[0].levels)
    assert "100 different texts: the 64 most frequent" in notes[0]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["1.5", "2", "n.d.", "", "3e-4"], r"'n\.d\.' in row 3 .*\(1 such cells of 4\)"),
        (["12,5", "13,1", "11,9"], r"'12,5' in row 1 .*\(3 such cells of 3\)"),
        (["1,065", "990", "1,280.5"], r"'1,065' in row 1 .*\(2 such cells of 3\)"),
        (["<0.1", "0.3", "5 %", "none"], r"'<0\.1' in row 1 .*\(3 such cells of 4\)"),
    ],
)
def test_check_numbers_rejects_words_among_numbers(cells, shown):
    with pytest.raises(UserError, match=f"{shown}: remedy$"):
        check_numbers({"b": np.arange(5.0), "a": texts(*cells)}, ["b"], "remedy")
    check_numbers({"a": texts(*cells)}, ["a"], "remedy")


@pytest.mark.parametrize(
    "cells", [["A1", "7", "B2", "8"], ["1.2.3", "1.3.0"], ["2020-01-02", "2021-03-04"], ["1", "2"]]
)
def test_check_numbers_accepts_names_with_digits(cells):
    check_numbers({"a": texts(*cells)}, [], "remedy")


def test_learn_rejects_too_large_values():
    with pytest.raises(UserError, match=r"column 'a' is 1\.79769e\+308 in row 2 .*too large"):
        learn({"a": np.array([1.0, np.finfo(float).max, 2.0, np.nan])})


def test_learn_and_encode_reject_infinity():
    with pytest.raises(UserError, match="column 'a' is infinite in row 3 below the heading"):
        learn({"a": np.array([1, 2, np.inf])})
    with pytest.raises(UserError, match="in row 2"):
        learn({"a": np.arange(3.0)})[0].encode({"a": np.array([0, np.inf])})
