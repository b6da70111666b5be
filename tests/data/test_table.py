import numpy as np
import pytest

from surelabel.config import Table
from surelabel.data.table import load, load_unlabelled
from surelabel.errors import UserError


def written(tmp_path, text: str):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


GOOD = "size,class,colour\n1,b,red\n2,a,green\n3,,red\n4,b,green\n"


def test_rows_become_samples_and_an_empty_label_means_unlabelled(tmp_path):
    data = load(written(tmp_path, GOOD))
    assert (data.classes, data.train.labels.tolist(), data.test) == (("a", "b"), [1, 0, -1, 1], None)
    assert data.train.shape == (4,)  # the size; green, red, anything else
    rows = data.train.images(np.arange(4))
    np.testing.assert_allclose(rows[:, 0], (np.arange(4) - 1.5) / np.std(np.arange(4)), rtol=1e-6)
    assert rows[:, 1:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert (data.offset, data.scale) == ((0.0,) * 4, (1.0,) * 4)


def test_a_split_column_makes_a_test_set_that_the_encoding_never_saw(tmp_path):
    data = load(written(tmp_path, "x,y,split\n0,0,train\n2,1,\n100,1,test\n"))
    assert data.train.images(np.arange(2)).tolist() == [[-1], [1]]
    assert data.test.images(np.arange(1)).tolist() == [[99]]
    assert (data.test.labels.tolist(), len(data.train)) == ([1], 2)


def test_numbered_classes_keep_their_order_and_minus_one_may_be_one_of_two(tmp_path):
    assert load(written(tmp_path, "x,y\n1,10\n2,9\n3,100\n")).classes == ("9", "10", "100")
    assert load(written(tmp_path, "x,y\n1,-1\n2,1\n3,1\n")).classes == ("-1", "1")


def test_another_label_column_leaves_a_column_named_y_alone(tmp_path):
    data = load(written(tmp_path, "x,y,kind\n1,5,a\n2,6,b\n4,8,a\n"), "kind")
    assert (data.classes, data.train.shape) == (("a", "b"), (2,))


def test_settings_make_columns_categorical_or_leave_them_out(tmp_path):
    text = "code,x,secret,y\n1,5,7,a\n2,6,8,b\n1,8,1,a\n"
    data = load(written(tmp_path, text), settings=Table(categorical="code", ignored="secret, "))
    assert [column.name for column in data.train.encoding.columns] == ["code", "x"]
    assert data.train.shape == (4,)


def test_a_column_of_row_numbers_is_left_out_although_the_split_tears_it(tmp_path):
    rows = "\n".join(f"{n},{n * n},{n % 2},{'test' if n % 3 == 0 else 'train'}" for n in range(20))
    data = load(written(tmp_path, f"n,x,y,split\n{rows}\n"))
    assert data.train.notes == ("column 'n' is left out: it only counts the rows",)
    assert data.train.shape == (1,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column is named as labels: name it by --label-column, or call it label or class"),
        ("a,y,Class\n1,2,3\n", r"several columns may hold the labels \(y, Class\)"),
        ("a,y\n1,x\n2,x\n3,\n", "names the class 'x' alone"),
        ("a,y\n1,\n2,\n", "names no class"),
        ("a,y\n1,0\n2,-1\n3,1\n", "-1 may be a class or mean unlabelled"),
        ("a,y,split\n1,0,train\n2,1,val\n", "train, test or nothing, not 'val'"),
        ("a,y,split\n1,0,test\n2,1,test\n", "leaves no row to train on"),
        ("a,y,split\n1,0,\n2,1,\n3,2,test\n", "no training row is of the class '2'"),
        ("a,y,split\n1,0,\n2,1,\n3,,test\n", "test row 2 has no label"),
        ("name,y\nx,0\nx,1\n", "no column to learn from. column 'name' is left out: it is 'x' everywhere"),
    ],
)
def test_a_hostile_table_is_refused_in_words(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_columns_that_are_not_there_are_told(tmp_path):
    path = written(tmp_path, GOOD)
    with pytest.raises(UserError, match="no column 'kind' for --label-column; the table has 'size', 'class', 'colour'"):
        load(path, "kind")
    with pytest.raises(UserError, match=r"table\.ignored: there is no column 'sise'"):
        load(path, settings=Table(ignored="sise"))


def test_a_new_table_is_encoded_as_the_training_table_was(tmp_path):
    data = load(written(tmp_path, GOOD))
    new = written(tmp_path, "note,colour,size\nhi,green,2\nho,blue,4\n")
    source = load_unlabelled(new, data.train.encoding, data.classes)
    both = data.train.images(np.array([1, 3]))
    both[1, 1:] = [0, 0, 1]  # a colour that was never seen
    np.testing.assert_array_equal(source.images(np.arange(2)), both)
    assert source.notes == (f"{new}: not used, as the network was trained without: 'note'",)
    with pytest.raises(UserError, match="lacks the column 'size'"):
        load_unlabelled(written(tmp_path, "colour\nred\n"), data.train.encoding, data.classes)
