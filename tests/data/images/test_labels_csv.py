import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.data.tables.columns import MISSING
from surelabel.utils.csv import escape_formula
from surelabel.utils.errors import UserError

FILES = {"a.png", "b.png", "inner/ä ö, ü.png", "d.png", "e.png", "f.png", "g.png"}


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("header", ["path,label", "file,class", "image,label", " Path , CLASS ", "id,image,note,label"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_header_encoding_and_newline(tmp_path, header, encoding, newline):
    rows = [("a.png", "cat"), ("./b.png", "dog"), ('"inner/ä ö, ü.png"', "große Katze")]
    long = header.startswith("id")
    lines = [f"1,{file},x,{name}" if long else f"{file},{name}" for file, name in rows]
    path = write(tmp_path, newline.join([header, *lines, ""]), encoding)
    assert read_labels_csv(path, FILES) == {"a.png": "cat", "b.png": "dog", "inner/ä ö, ü.png": "große Katze"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("note", ["note", '"a, b; c\td"'])
def test_columns_may_be_separated_by_semicolons_and_tabs(tmp_path, delimiter, note):
    rows = [("path", note, "label"), ("a.png", "1,5", "cat"), ("inner/ä ö, ü.png", "x", "a;b\tc")]
    quoted = [[cell if cell == note else f'"{cell}"' for cell in row] for row in rows]
    path = write(tmp_path, "".join(delimiter.join(row) + "\n" for row in quoted), "utf-8-sig")
    assert read_labels_csv(path, FILES) == {"a.png": "cat", "inner/ä ö, ü.png": "a;b\tc"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(sorted(FILES)), st.text().map(str.strip).filter(lambda name: name not in MISSING), min_size=1
    )
)
def test_what_pythons_writer_writes_is_read_back(tmp_path, classes):
    classes = {file: name.encode("utf-8", "ignore").decode() or "x" for file, name in classes.items()}
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("path", "label"), *((file, escape_formula(name)) for file, name in classes.items())])
    read = {file: re.sub(r"^'(?=[=+@\t\r-])", "", name) for file, name in classes.items()}
    assert read_labels_csv(write(tmp_path, buffer.getvalue()), FILES) == read


@pytest.mark.parametrize(
    ("written", "label"),
    [("'=SUM", "=SUM"), ("'-x", "-x"), ("-1.5", "-1.5"), ("'+a", "+a"), ("'@b", "@b"), ("'n' Roll", "'n' Roll")],
)
def test_a_class_loses_the_apostrophe_that_keeps_a_spreadsheet_from_computing_it(tmp_path, written, label):
    assert read_labels_csv(write(tmp_path, f"path,label\na.png,{written}\n"), FILES) == {"a.png": label}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"exactly one column path or file or image or sample, .*\(empty\)"),
        ("a.png,cat\n", "first line is: a.png, cat"),
        ("path,kind\na.png,cat\n", "exactly one column label or class"),
        ("path,file,label\na.png,a.png,cat\n", "exactly one column path or file or image or sample"),
        ("path,label\n", "names no class of any file"),
        ("path,label\na.png,  \n", "names no class of any file"),
        ("path,label\na.png,\na.png,dog\n", "lines 2 and 3: a.png is named twice, as unlabelled and as dog"),
        ("path,label\n,cat\n", "line 2: the name of the file is empty"),
        ("path,label\na.png\n", "line 2: 1 columns instead of 2"),
        ("path,label\na.png,cat,dog\n", "line 2: 3 columns instead of 2"),
        ("path,label\na.png,cat\nb.png,dog\na.png,dog\n", "lines 2 and 4: a.png is named twice, as cat and as dog"),
        ("path,label\na.png,cat\n./a.png,cat\n", "lines 2 and 3: ./a.png is named twice, with the same class"),
        ("path,label\n../a.png,cat\n", "leads out of the data folder"),
        ("path,label\ninner/../../a.png,cat\n", "leads out of the data folder"),
        ("path,label\n/etc/passwd,cat\n", "leads out of the data folder"),
        (
            "path,label\nnone.png,cat\na.png,cat\n",
            r"names 1 files that are not in the data folder: none\.png \(line 2\) \(there is, for example, a\.png\)$",
        ),
        ('path,label\n"a.png,cat\n', "cannot be read as a CSV file"),
        ("path,label\n" + "x" * 200_000 + ",cat\n", "cannot be read as a CSV file"),
        ("path,label\na\0b.png,cat\n", "not in the data folder"),
    ],
)
def test_a_wrong_table_is_refused_with_the_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        read_labels_csv(path, FILES)
    assert str(path) in str(caught.value)


def test_of_many_missing_files_the_first_few_and_the_count_are_named(tmp_path):
    text = "path,label\n" + "".join(f"missing{number}.png,cat\n" for number in range(1000))
    with pytest.raises(UserError, match=r"names 1000 files .*missing0\.png .*missing4\.png \(line 6\), \.\.\. \("):
        read_labels_csv(write(tmp_path, text), FILES)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("pictures/a.png", "a.png"),  # with the name of the folder itself
        ("a", "a.png"),
        ("A.PNG", "a.png"),
        ("ä ö, ü.png", "inner/ä ö, ü.png"),
        ("pictures/inner/ä ö, ü", "inner/ä ö, ü.png"),
        ("other/0001.png", "other/deep/0001.png"),  # of several files of that name, the most similar
        ("innr/0002x.png", "inner/0002.png"),
    ],
)
def test_where_a_file_is_missing_the_one_that_is_probably_meant_is_named(tmp_path, written, meant):
    files = FILES | {"inner/0001.png", "other/deep/0001.png", "inner/0002.png"}
    with pytest.raises(UserError) as caught:
        read_labels_csv(write(tmp_path, f'path,label\n"{written}",cat\n'), files)
    assert str(caught.value).endswith(f"{written} (line 2) (did you mean {meant}?)")


def test_an_absolute_path_may_name_a_file_in_the_folder_and_none_outside(tmp_path, monkeypatch):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    table = write(tmp_path, f"path,label\n{folder}/a.png,cat\n{folder}/inner/d.png,dog\nb.png,cow\n")
    classes = {"a.png": "cat", "inner/d.png": "dog", "b.png": "cow"}
    monkeypatch.chdir(tmp_path)
    for place in (folder, tmp_path / "link", Path("pictures"), Path("pictures/../pictures")):
        assert read_labels_csv(table, set(classes), place) == classes
    assert read_labels_csv(write(tmp_path, f"path,label\n{tmp_path}/link/a.png,cat\n"), FILES, Path("link"))
    for outside in (f"{tmp_path}/a.png", f"{folder}s/a.png", f"{folder}/../a.png", "/a.png"):
        with pytest.raises(UserError, match="leads out of the data folder pictures; name files relative to it"):
            read_labels_csv(write(tmp_path, f"path,label\n{outside},cat\n"), FILES, Path("pictures"))
    with pytest.raises(
        UserError, match=r"names 1 files that are not in the data folder pictures: .*/c\.png \(line 2\)"
    ):
        read_labels_csv(write(tmp_path, f"path,label\n{folder}/c.png,cat\n"), FILES, Path("pictures"))


def test_another_encoding_is_refused_by_name(tmp_path):
    path = write(tmp_path, "path,label\nä.png,cat\n", "latin-1")
    with pytest.raises(UserError, match="in UTF-8"):
        read_labels_csv(path, FILES)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_labels_csv(tmp_path / "absent.csv", FILES)


def test_a_file_without_a_class_is_unlabelled(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("path,label\na.png,\nb.png,dog\n")
    assert read_labels_csv(table, ["a.png", "b.png"]) == {"b.png": "dog"}
