import numpy as np
import pytest

from surelabel.data.tables.source import load
from surelabel.utils.errors import UserError

TABLE = "x,y,split\n1,a,\n2,,\n3,b,test\n4,,\n5,b,\n6,,\n"


def loaded(tmp_path, *files, table=TABLE):
    (tmp_path / "table.csv").write_text(table)
    for number, text in enumerate(files):
        (tmp_path / f"{number}.csv").write_text(text)
    return load(tmp_path / "table.csv", label_files=[str(tmp_path / f"{number}.csv") for number in range(len(files))])


def test_labels_join_those_of_the_table(tmp_path):
    """Row 2 is of the test; a row that is listed again with the same class says how it was drawn."""
    first = "rank,sample,label,drawn\n1,3,c,suggested\n2,5,,suggested\n3,0,a,suggested\n4,2,b,random\n"
    train = loaded(tmp_path, first, "sample,label\n1,a\n").train
    assert train.classes == ("a", "b", "c")
    assert train.labels.tolist() == [0, 0, 2, 1, -1]
    assert train.suggested.tolist() == [True, False, True, False, False]
    assert train.names(np.arange(5)) == [0, 1, 3, 4, 5]


def test_whole_numbers_are_one_class_however_they_are_written(tmp_path):
    train = loaded(tmp_path, "sample,label\n1,1\n2,2.0\n", table="x,y\n1,1.0\n2,\n3,\n4,2.0\n").train
    assert (train.classes, train.labels.tolist()) == (("1", "2"), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample,label\n6,a\n", r"0\.csv, line 2: there is no row '6': .* 6 rows.* 0 to 5"),
        ("sample,label\n1,a\n-1,a\n", "line 3: there is no row '-1'"),
        ("sample,label\nx.png,a\n", "line 2: there is no row 'x.png'"),
        ("sample,label\n4,a\n", "line 2: row 4 is 'a' here, and already labelled 'b'"),
        ("sample,label\n2,a\n", "line 2: row 2 is 'a' here, and already labelled 'b'"),
        ("sample,label\n1,a\n01,a\n", "lines 2 and 3: 01 is listed twice, with the same class"),
        ("sample,label\n1,a\n1,b\n", "lines 2 and 3: 1 is listed twice, as a and as b"),
        ("sample,label\n1,NA\n", "line 2: NA may be a class or mean unlabelled"),
        ("sample,label\n1,\n", "names no class of any sample"),
        ("path,label\n1,a\n", "exactly one column named sample or row"),
    ],
)
def test_labels_that_fit_no_row_are_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        loaded(tmp_path, text)


def test_two_files_that_disagree_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"1\.csv, line 2: row 1 is 'b' here, and already labelled 'a'"):
        loaded(tmp_path, "sample,label\n1,a\n", "sample,label\n1,b\n")


def test_rows_are_called_by_the_first_column_of_texts_that_all_differ(tmp_path):
    rows = [f"{n},{n % 3},{'ab'[n % 2]},name {n},code {n},{'test' if n < 3 else ''}\n" for n in range(20)]
    train = loaded(tmp_path, table="n,x,y,who,code,split\n" + "".join(rows)).train
    assert train.ids.tolist() == [f"name {n}" for n in range(3, 20)]
    assert loaded(tmp_path).train.ids is None
