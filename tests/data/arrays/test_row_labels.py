import numpy as np
import pytest

from surelabel.data.arrays.files import load_npy, load_npz
from surelabel.data.open import open_data
from surelabel.utils.errors import UserError

ROWS = np.random.default_rng(0).normal(size=(6, 5))


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    return str(tmp_path / "rows.npy")


@pytest.mark.parametrize("column", ["row", "sample", "Sample"])
def test_a_table_labels_rows_by_number(rows, tmp_path, column):
    table = written(tmp_path / "labels.csv", f"{column},label\n4,dog\n0,cat\n5,\n")
    train = open_data(rows, label_files=(table,)).train
    assert train.classes == ("cat", "dog")
    assert train.labels.tolist() == [0, -1, -1, -1, 1, -1]
    assert not train.suggested.any()


def test_a_later_table_counts_and_says_what_was_suggested(rows, tmp_path):
    first = written(tmp_path / "first.csv", "row,label\n0,cat\n1,dog\n")
    more = written(
        tmp_path / "more.csv", "rank,sample,label,drawn\n1,1,bird,suggested\n2,3,cat,suggested\n3,4,,suggested\n"
    )
    train = load_npy(rows, label_files=(first, more)).train
    assert train.classes == ("bird", "cat")
    assert train.labels.tolist() == [1, 0, -1, 1, -1, -1]
    assert np.flatnonzero(train.suggested).tolist() == [1, 3]


def test_a_table_adds_to_the_labels_in_the_file(tmp_path):
    np.savez(tmp_path / "rows.npz", X=ROWS, y=[0, 1, -1, -1, -1, -1])
    table = written(tmp_path / "labels.csv", "row,label\n2,10\n1,2\n")
    train = load_npz(tmp_path / "rows.npz", label_files=(table,)).train
    assert train.classes == ("0", "1", "2", "10")
    assert train.labels.tolist() == [0, 2, 3, -1, -1, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,label\n6,cat\n", r"line 2: there is no row '6': there are 6 rows, which are numbered from 0 to 5"),
        ("row,label\n-1,cat\n", "there is no row '-1'"),
        ("row,label\n1.0,cat\n", "there is no row '1.0'"),
        ("row,label\n1,cat\n2,dog\n1,dog\n", "lines 2 and 4: 1 is listed twice"),
        ("row,label\n1,NA\n", "may be a class or mean unlabelled"),
        ("row,label\n1,\n", "names no class of any sample"),
        ("path,label\n1,cat\n", "exactly one column named sample or row"),
    ],
)
def test_mistakes_in_a_table_are_named(rows, tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        load_npy(rows, label_files=(written(tmp_path / "labels.csv", text),))


def test_classes_that_the_file_declares_are_all(tmp_path):
    np.savez(tmp_path / "rows.npz", X=ROWS, classes=["cat", "dog"])
    table = written(tmp_path / "labels.csv", "row,label\n2,bird\n")
    with pytest.raises(UserError, match="the class 'bird' is not one of cat, dog"):
        load_npz(tmp_path / "rows.npz", label_files=(table,))
