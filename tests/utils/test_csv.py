import csv

import pytest

from surelabel.utils.csv import delimiter_of, escape_formula, write_csv


@pytest.mark.parametrize("name", ["=1+1", "+a", "-b", "@c", "\tx", "-1-1", "plain", "1-1", "-1", "+1", "-2.5"])
def test_escape_formula_prefixes_formulas(name):
    assert escape_formula(name) == (name if name in ("plain", "1-1", "-1", "+1", "-2.5") else f"'{name}")


def test_write_csv_writes_numbers_and_texts(tmp_path):
    write_csv(tmp_path / "out.csv", ["name", "count", "share"], [("=a, b", 3, -0.25), ("c", 0, 1.0)])
    with (tmp_path / "out.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["name", "count", "share"],
            ["'=a, b", "3", "-0.250000"],
            ["c", "0", "1.000000"],
        ]


def test_delimiter_of_handles_long_headers():
    for sign in ",;\t":
        assert delimiter_of(sign.join(["gene"] * 50_000)) == sign
