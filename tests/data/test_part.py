import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.part import Part, part_files
from surelabel.utils.errors import UserError


@given(st.integers(0, 500), st.integers(1, 40), st.integers(1, 60))
def test_parts_are_all_rows_in_whole_units(total, of, unit):
    parts = [Part(number, of).rows(total, unit) for number in range(1, of + 1)]
    assert [row for part in parts for row in part] == list(range(total))
    assert all(part.start % unit == 0 for part in parts if len(part))
    units = [-(-len(part) // unit) for part in parts]
    assert max(units) - min(units) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_a_part_is_written_as_two_numbers(text):
    with pytest.raises(UserError, match="write it as 3/16"):
        Part.parse(text)


def test_files_of_parts_are_found_in_order_or_missed(tmp_path):
    out = tmp_path / "p.csv"
    files = [Part(number, 12).file(out) for number in range(1, 13)]
    assert files[2].name == "p.part-03-of-12.csv"
    for file in files:
        file.touch()
    assert part_files(out) == files
    files[4].unlink()
    with pytest.raises(UserError, match=r"1 of 12 parts.*part-05-of-12"):
        part_files(out)
    Part(1, 2).file(out).touch()
    with pytest.raises(UserError, match="parts of 2 and of 12"):
        part_files(out)
    with pytest.raises(UserError, match="no parts of"):
        part_files(tmp_path / "q.csv")
