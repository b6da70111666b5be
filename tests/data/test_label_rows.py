import pytest

from surelabel.data.label_rows import read_label_rows
from surelabel.utils.errors import UserError


def test_each_row_says_how_it_was_drawn(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("sample;label;Drawn\n5;'=a;suggested\n\n6;;Random\n7;b;\n")
    rows = read_label_rows(path)
    assert [(row.line, row.sample, row.label, row.suggested) for row in rows] == [
        (2, "5", "=a", True),
        (4, "6", "", False),
        (5, "7", "b", False),
    ]
    path.write_text("sample,label\n5,a\n")
    assert not read_label_rows(path)[0].suggested


def test_another_way_to_draw_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("sample,label,drawn\n5,a,suggested\n6,b,2024-05-01\n")
    with pytest.raises(UserError, match=r"line 3: drawn is '2024-05-01'.*suggested or random"):
        read_label_rows(path)
