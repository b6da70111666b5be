import numpy as np
import pytest

from surelabel.config.run import Table
from surelabel.data.tables.source import load, load_labelled, load_unlabelled
from surelabel.utils.errors import UserError


def written(tmp_path, text: str):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


GOOD = "size,class,colour\n1,b,red\n2,a,green\n3,,red\n4,b,green\n"


def test_rows_become_samples_and_an_empty_label_means_unlabelled(tmp_path):
    data = load(written(tmp_path, GOOD))
    assert (data.classes, data.train.labels.tolist(), data.test) == (("a", "b"), [1, 0, -1, 1], None)
    assert data.train.shape == (4,)  # the size; green, red, anything else
    rows = data.train.samples(np.arange(4))
    np.testing.assert_allclose(rows[:, 0], (np.arange(4) - 1.5) / np.std(np.arange(4)), rtol=1e-6)
    assert rows[:, 1:].tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert (data.offset, data.scale) == ((0.0,) * 4, (1.0,) * 4)


def test_load_split_column_is_unseen_by_the_encoding(tmp_path):
    data = load(written(tmp_path, "x,y,split\n0,0,train\n2,1,\n100,1,test\n"))
    assert data.train.samples(np.arange(2)).tolist() == [[-1], [1]]
    assert data.test.samples(np.arange(1)).tolist() == [[99]]
    assert (data.test.labels.tolist(), len(data.train)) == ([1], 2)


def test_numbered_classes_keep_their_order_and_minus_one_may_be_one_of_two(tmp_path):
    assert load(written(tmp_path, "x,y\n1,10\n2,9\n3,100\n")).classes == ("9", "10", "100")
    assert load(written(tmp_path, "x,y\n1,-1\n2,1\n3,1\n")).classes == ("-1", "1")


def test_load_with_a_label_column_keeps_a_column_y(tmp_path):
    data = load(written(tmp_path, "x,y,kind\n1,5,a\n2,6,b\n4,8,a\n"), "kind")
    assert (data.classes, data.train.shape) == (("a", "b"), (2,))


def test_settings_make_columns_categorical_or_leave_them_out(tmp_path):
    text = "code,x,secret,y\n1,5,7,a\n2,6,8,b\n1,8,1,a\n"
    data = load(written(tmp_path, text), settings=Table(categorical="code", ignored="secret, "))
    assert [column.name for column in data.train.encoding.columns] == ["code", "x"]
    assert data.train.shape == (4,)


def test_rows_of_one_patient_are_a_group_which_is_no_feature(tmp_path):
    text = "patient,x,y\n007,1,a\n7,2,b\n007,3,\n,4,a\nNA,5,b\n"
    train = load(written(tmp_path, text), group_column="patient").train
    assert [column.name for column in train.encoding.columns] == ["x"]
    assert train.groups[0] == train.groups[2]
    assert len(set(train.groups.tolist())) == 4, "texts as written, and each missing one alone"
    assert load(written(tmp_path, text)).train.groups is None


def test_a_group_on_both_sides_of_the_split_is_said(tmp_path):
    text = "patient,x,y,split\n{},1,a,\n2,2,b,\n3,3,a,test\n"
    assert load(written(tmp_path, text.format(1)), group_column="patient").train.notes == ()
    (note,) = load(written(tmp_path, text.format(3)), group_column="patient").train.notes
    assert "'patient' are in training and in the test" in note


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("pateint", "no column 'pateint'. Did you mean 'patient'"),
        ("y", "'y' holds the labels"),
        ("split", "'split' holds the split"),
    ],
)
def test_load_names_a_wrong_group_column(tmp_path, asked, message):
    text = "patient,x,y,split\n1,1,a,\n2,2,b,\n"
    with pytest.raises(UserError, match=message):
        load(written(tmp_path, text), group_column=asked)


def test_load_leaves_out_row_numbers(tmp_path):
    rows = "\n".join(f"{n},{n * n},{n % 2},{'test' if n % 3 == 0 else 'train'}" for n in range(20))
    data = load(written(tmp_path, f"n,x,y,split\n{rows}\n"))
    assert data.train.notes == ("column 'n' is left out: it only counts the rows",)
    assert data.train.shape == (1,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column is named as labels: name it by label_column, or call it label or class"),
        ("a,y,Class\n1,2,3\n", r"several columns may hold the labels \(y, Class\)"),
        ("a,y\n1,x\n2,x\n3,\n", "names the class 'x' alone"),
        ("a,y\n1,\n2,\n", "names no class"),
        ("a,y\n1,0\n2,-1\n3,1\n", "-1 may be a class or mean unlabelled"),
        ("a,y\n1,p\n2,NA\n3,q\n", "NA may be a class or mean unlabelled"),
        ("a,y\n1,0.0\n2,-1.0\n3,1.0\n", "-1 may be a class or mean unlabelled"),
        ("a,y,split\n1,p,\n9,q,test\n2,p,\n1;5,q,\n3,q,\n", "is '1;5' in row 4 below the heading \\(1 such cells of 5"),
        ("a,y,split\n1,0,train\n2,1,val\n", "train, test or nothing, not 'val'"),
        ("a,y,split\n1,0,test\n2,1,test\n", "leaves no row to train on"),
        ("a,y,split\n1,0,\n2,1,\n3,2,test\n", "no training row is of the class '2'"),
        ("a,y,split\n1,0,\n2,1,\n3,,test\n", "the test sample in row 3 below the heading has no label"),
        ("name,y\nx,0\nx,1\n", "no column to learn from. column 'name' is left out: it is 'x' everywhere"),
    ],
)
def test_load_rejects_hostile_tables(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_whole_numbers_with_gaps_are_the_classes_that_they_were(tmp_path):
    """pandas makes them floats, and saves them as such; elsewhere they are as they were."""
    floats = load(written(tmp_path, "a,y\n1,0.0\n2,10.0\n3,2.0\n4,\n"))
    assert floats.classes == ("0", "2", "10")
    assert floats.train.labels.tolist() == [0, 2, 1, -1]
    held = load_labelled(written(tmp_path, "a,y\n1,2\n2,10.0\n"), floats.train.encoding, floats.classes)
    assert held.labels.tolist() == [1, 2]
    halves = load(written(tmp_path, "a,y\n1,1.0\n2,1.5\n3,2.0\n"))
    held = load_labelled(written(tmp_path, "a,y\n1,2.0\n2,1.0\n"), halves.train.encoding, halves.classes)
    assert held.labels.tolist() == [2, 0]
    codes = load(written(tmp_path, "a,y\n1,007\n2,1.5\n3,2.0\n"))
    assert codes.classes == ("1.5", "2.0", "007")


def test_load_labelled_takes_test_rows_alone(tmp_path):
    data = load(written(tmp_path, "a,y\n1,p\n2,q\n4,q\n"))
    held = load_labelled(written(tmp_path, "a,y,split\n1,q,test\n2,p,test\n"), data.train.encoding, data.classes)
    assert (held.labels.tolist(), held.numbers.tolist()) == ([1, 0], [0, 1])
    with pytest.raises(UserError, match="'x' in row 3 below the heading"):
        load_labelled(written(tmp_path, "a,y,split\n1,q,\n2,p,\nx,p,test\n"), data.train.encoding, data.classes)


def test_classes_that_may_not_be_meant_as_such_are_told(tmp_path):
    data = load(written(tmp_path, "a,y\n1,Barolo\n2,barolo\n3,unknown\n4,asti\n"))
    assert data.classes == ("Barolo", "asti", "barolo")
    assert data.train.notes == (
        "Column 'y': 'unknown' is taken as unlabelled (1)",
        "Column 'y': Are 'Barolo', 'barolo' different classes? They are taken for such",
    )


def test_load_keeps_categories_that_look_like_numbers(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"grade": ["1", "2", "other", "3"] * 5, "y": ["a", "b"] * 10})
    frame.to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(UserError, match="'grade' seems to hold numbers"):
        load(tmp_path / "texts.parquet")
    frame.astype({"grade": "category"}).to_parquet(tmp_path / "category.parquet")
    assert load(tmp_path / "category.parquet").train.encoding.columns[0].levels == ("1", "2", "3", "other")


def test_columns_that_are_not_there_are_told(tmp_path):
    path = written(tmp_path, GOOD)
    with pytest.raises(UserError, match="there is no column 'kind'; the table has 'size', 'class', 'colour'"):
        load(path, "kind")
    with pytest.raises(UserError, match=r"table\.ignored: there is no column 'sise'"):
        load(path, settings=Table(ignored="sise"))


def test_load_unlabelled_encodes_as_in_training(tmp_path):
    data = load(written(tmp_path, GOOD))
    new = written(tmp_path, "note,colour,size\nhi,green,2\nho,blue,4\n")
    source = load_unlabelled(new, data.train.encoding, data.classes)
    both = data.train.samples(np.array([1, 3]))
    both[1, 1:] = [0, 0, 1]  # a colour that was never seen
    np.testing.assert_array_equal(source.samples(np.arange(2)), both)
    assert source.notes == (f"{new}: not used, as the network was trained without: 'note'",)
    labelled = written(tmp_path, "class,colour,size\nx,green,2\n")
    assert load_unlabelled(labelled, data.train.encoding, data.classes).notes == ()
    with pytest.raises(UserError, match="lacks the column 'size'"):
        load_unlabelled(written(tmp_path, "colour\nred\n"), data.train.encoding, data.classes)
