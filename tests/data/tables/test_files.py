import datetime
import decimal
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from surelabel.data.tables import files as table_files
from surelabel.data.tables.files import read_table
from surelabel.utils.errors import UserError


def read(path, *as_written: str):
    found = read_table(path, lambda name: name in as_written)
    return found.columns, found.notes


def csv(tmp_path, text: str | bytes):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_read_table_finds_numeric_csv_columns(tmp_path):
    columns, notes = read(csv(tmp_path, '\ufeffa,b,c,d\n1, x ,007,\n NA ,"y, z",8,\n2.5e1,?,9,\n'), "c")
    np.testing.assert_array_equal(columns["a"], [1, np.nan, 25])
    assert columns["b"].tolist() == ["x", "y, z", ""]
    assert columns["c"].tolist() == ["007", "8", "9"]
    assert np.isnan(columns["d"]).all()
    assert notes == ()


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_read_table_detects_the_delimiter(tmp_path, delimiter):
    text = 'a|b|"c, d; e"\n1|x|"y, z"\n2||"v; w"\n'
    expected, _ = read(csv(tmp_path, text.replace("|", ",")))
    columns, _ = read(csv(tmp_path, text.replace("|", delimiter)))
    assert list(columns) == list(expected) == ["a", "b", "c, d; e"]
    for name, cells in expected.items():
        np.testing.assert_array_equal(columns[name], cells)


@pytest.mark.parametrize("name", ["a", '"a, b"', '"a; b"', '"a\tb"'])
def test_read_table_reads_a_single_column(tmp_path, name):
    columns, _ = read(csv(tmp_path, f"{name}\n1\n2\n"))
    assert list(columns) == [name.strip('"')]


def test_read_table_considers_the_end_of_a_large_file(tmp_path):
    rows = "\n".join(["1234567890"] * 200_000)
    columns, _ = read(csv(tmp_path, f"a\n{rows}\nword\n"))
    assert columns["a"][-1] == "word"


@pytest.mark.parametrize(("name", "cell"), [("x" * 100, "1"), ("x", "-1.2345678901234567e-100")])
def test_read_table_reads_long_headers_and_rows(tmp_path, monkeypatch, name, cell):
    monkeypatch.setattr(table_files, "BLOCK", 64)
    names = [f"{name}{number}" for number in range(50)]
    columns, _ = read(csv(tmp_path, f"{','.join(names)}\n" + f"{','.join([cell] * len(names))}\n" * 2))
    assert list(columns) == names
    np.testing.assert_array_equal(columns[names[-1]], [float(cell)] * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "has no rows below its header"),
        ("a,b,a\n1,2,3\n", "more than one column named 'a'"),
        ("a,b\n1,2,3\n", "cannot be read as a CSV file"),
        (b"a,b\n\xff\xfe,1\n", "cannot be read as a CSV file in UTF-8"),
        (b'"a,b\n', "cannot be read as a CSV file"),
    ],
)
def test_read_table_rejects_a_wrong_csv(tmp_path, text, message):
    path = csv(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_read_table_reads_parquet_types(tmp_path):
    table = pa.table(
        {
            "whole": pa.array([1, None, 3]),
            "decimal": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2.5")]),
            "flag": [True, None, False],
            "word": pa.array(["a", None, "b"]).dictionary_encode(),
            "postcode": pa.array(["01", None, "02"]).dictionary_encode(),
            "day": [datetime.date(2020, 1, 1)] * 3,
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    columns, notes = read(tmp_path / "t.parquet")
    np.testing.assert_array_equal(columns["whole"], [1, np.nan, 3])
    np.testing.assert_array_equal(columns["decimal"], [1.5, np.nan, 2.5])
    assert columns["flag"].tolist() == ["True", "", "False"]
    assert columns["word"].tolist() == ["a", "", "b"]
    assert columns["postcode"].tolist() == ["01", "", "02"]
    assert len(notes) == 1
    assert notes[0].startswith("column 'day' is left out: it holds date32[day]")


@pytest.mark.parametrize("name", [None, "id"])
def test_read_table_leaves_out_a_pandas_index_with_a_note(tmp_path, name):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "w"]}, index=pd.Index([2, 0, 1], name=name))
    frame.to_parquet(tmp_path / "t.parquet")
    stored = name or "__index_level_0__"
    assert stored in parquet.read_schema(tmp_path / "t.parquet").names
    columns, notes = read(tmp_path / "t.parquet")
    assert list(columns) == ["a", "y"]
    assert len(notes) == 1
    assert notes[0].startswith(f"column {stored!r} is left out: it is the index")
    assert stored in read(tmp_path / "t.parquet", stored)[0]  # asked for by name


def test_read_table_leaves_out_a_pandas_multiindex(tmp_path):
    levels = pd.MultiIndex.from_arrays([[1, 2], ["p", "q"]], names=["shop", None])
    pd.DataFrame({"a": [1.0, 2.0]}, index=levels).to_parquet(tmp_path / "t.parquet")
    assert list(read(tmp_path / "t.parquet")[0]) == ["a"]


def test_read_table_leaves_out_a_pandas_index_in_a_csv(tmp_path):
    path = tmp_path / "t.csv"
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", "v", "w"]}, index=[2, 0, 1])
    frame.to_csv(path)
    assert list(read(path)[0]) == ["a", "y"]
    pd.read_csv(path).to_csv(path)
    columns, notes = read(path)
    assert list(columns) == ["a", "y"]
    assert [note.partition(" is left out")[0] for note in notes] == ["column ''", "column 'Unnamed: 0'"]


@pytest.mark.parametrize("metadata", [None, b"[1", b"[1]", b'{"index_columns": 3}', b"{}"])
def test_read_table_knows_a_pandas_index_by_name(tmp_path, metadata):
    table = pa.table({"a": [1, 2], "__index_level_1__": [3, 4], "__index_level_x__": [5, 6]})
    table = table.replace_schema_metadata(None if metadata is None else {b"pandas": metadata})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert list(read(tmp_path / "t.parquet")[0]) == ["a", "__index_level_x__"]


def test_read_table_rejects_a_damaged_or_missing_file(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UserError, match="cannot be read as a Parquet file"):
        read(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="there is no file"):
        read(tmp_path / "u.parquet")


def test_read_table_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'surelabel\[tables\]'"):
        read(csv(tmp_path, "a\n1\n"))
