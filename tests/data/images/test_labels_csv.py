import csv
import io
import re
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.data.tables.columns import MISSING
from surelabel.utils.csv import escape_formula
from surelabel.utils.errors import UserError

FILES = {"a.png", "b.png", "inner/ä ö, ü.png", "d.png", "e.png", "f.png", "g.png"}


def classes_in(*given):
    return {file: row.label for file, row in read_labels_csv(*given).items()}


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("header", ["path,label", "file,class", "image,label", " Path , CLASS ", "id,image,note,label"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_read_labels_csv_accepts_any_header_encoding_and_newline(tmp_path, header, encoding, newline):
    rows = [("a.png", "cat"), ("./b.png", "dog"), ('"inner/ä ö, ü.png"', "große Katze")]
    long = header.startswith("id")
    lines = [f"1,{file},x,{name}" if long else f"{file},{name}" for file, name in rows]
    path = write(tmp_path, newline.join([header, *lines, ""]), encoding)
    assert classes_in(path, FILES) == {"a.png": "cat", "b.png": "dog", "inner/ä ö, ü.png": "große Katze"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("note", ["note", '"a, b; c\td"'])
def test_read_labels_csv_detects_the_delimiter(tmp_path, delimiter, note):
    rows = [("path", note, "label"), ("a.png", "1,5", "cat"), ("inner/ä ö, ü.png", "x", "a;b,c")]
    quoted = [[cell if cell == note else f'"{cell}"' for cell in row] for row in rows]
    path = write(tmp_path, "".join(delimiter.join(row) + "\n" for row in quoted), "utf-8-sig")
    assert classes_in(path, FILES) == {"a.png": "cat", "inner/ä ö, ü.png": "a;b,c"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(sorted(FILES)),
        st.text(st.characters(exclude_categories=("C", "Z")), min_size=1).filter(lambda name: name not in MISSING),
        min_size=1,
    )
)
def test_read_labels_csv_reads_what_python_writes(tmp_path, classes):
    classes = {file: normalize("NFC", name) for file, name in classes.items()}
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("path", "label"), *((file, escape_formula(name)) for file, name in classes.items())])
    read = {file: re.sub(r"^'(?=[=+@\t\r-])", "", name) for file, name in classes.items()}
    assert classes_in(write(tmp_path, buffer.getvalue()), FILES) == read


@pytest.mark.parametrize(
    ("written", "label"),
    [("'=SUM", "=SUM"), ("'-x", "-x"), ("-1.5", "-1.5"), ("'+a", "+a"), ("'@b", "@b"), ("'n' Roll", "'n' Roll")],
)
def test_read_labels_csv_strips_escaped_formulas(tmp_path, written, label):
    assert classes_in(write(tmp_path, f"path,label\na.png,{written}\n"), FILES) == {"a.png": label}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"exactly one column named path or file or image or sample, .*\(empty\)"),
        ("a.png,cat\n", "first line is: a.png, cat"),
        ("path,kind\na.png,cat\n", "one column named label or class"),
        ("path,file,label\na.png,a.png,cat\n", "one column named path"),
        ("path,label\n", "no class of any"),
        ("path,label\na.png,  \n", "no class of any"),
        ("path,label\na.png,\na.png,dog\n", "lines 2 and 3: a.png .* as unlabelled and as dog"),
        ("path,label\n,cat\n", "line 2: the file name is empty"),
        ("path,label\na.png\n", "line 2: 1 columns instead of 2"),
        ("path,label\na.png,cat,dog\n", "line 2: 3 columns instead of 2"),
        ("path,label\na.png,cat\nb.png,dog\na.png,dog\n", "lines 2 and 4: a.png .* as cat and as dog"),
        ("path,label\na.png,cat\n./a.png,cat\n", "lines 2 and 3: ./a.png is listed twice, with the same class"),
        ("path,label\n../a.png,cat\n", r"line 2: \.\./a\.png leads out"),
        ("path,label\ninner/../../a.png,cat\n", "line 2: inner.* leads out"),
        ("path,label\n/etc/passwd,cat\n", "line 2: /etc/passwd leads out"),
        (
            "path,label\nnone.png,cat\na.png,cat\n",
            r"1 files that are not in the data folder: none\.png \(line 2\) \(there is, for example, a\.png\)$",
        ),
        ('path,label\n"a.png,cat\n', "cannot be read as a CSV file"),
        ("path,label\n" + "x" * 200_000 + ",cat\n", "cannot be read as a CSV file"),
        ("path,label\na\0b.png,cat\n", "not in the data folder"),
    ],
)
def test_read_labels_csv_rejects_bad_rows(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        classes_in(path, FILES)
    assert str(path) in str(caught.value)


def test_read_labels_csv_counts_missing_files(tmp_path):
    text = "path,label\n" + "".join(f"missing{number}.png,cat\n" for number in range(1000))
    with pytest.raises(UserError, match=r"names 1000 files .*missing0\.png .*missing4\.png \(line 6\), \.\.\. \("):
        classes_in(write(tmp_path, text), FILES)


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
def test_read_labels_csv_suggests_the_intended_file(tmp_path, written, meant):
    files = FILES | {"inner/0001.png", "other/deep/0001.png", "inner/0002.png"}
    with pytest.raises(UserError) as caught:
        classes_in(write(tmp_path, f'path,label\n"{written}",cat\n'), files)
    assert str(caught.value).endswith(f"{written} (line 2) (did you mean {meant}?)")


def test_read_labels_csv_accepts_absolute_paths_inside_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    table = write(tmp_path, f"path,label\n{folder}/a.png,cat\n{folder}/inner/d.png,dog\nb.png,cow\n")
    classes = {"a.png": "cat", "inner/d.png": "dog", "b.png": "cow"}
    monkeypatch.chdir(tmp_path)
    for place in (folder, tmp_path / "link", Path("pictures"), Path("pictures/../pictures")):
        assert classes_in(table, set(classes), place) == classes
    assert classes_in(write(tmp_path, f"path,label\n{tmp_path}/link/a.png,cat\n"), FILES, Path("link"))
    for outside in (f"{tmp_path}/a.png", f"{folder}s/a.png", f"{folder}/../a.png", "/a.png"):
        with pytest.raises(UserError, match="leads out of the data folder pictures"):
            classes_in(write(tmp_path, f"path,label\n{outside},cat\n"), FILES, Path("pictures"))
    with pytest.raises(UserError, match=r"not in the data folder pictures: .*/c\.png \(line 2\)"):
        classes_in(write(tmp_path, f"path,label\n{folder}/c.png,cat\n"), FILES, Path("pictures"))


def test_read_labels_csv_rejects_other_encodings_and_missing_files(tmp_path):
    with pytest.raises(UserError, match="in UTF-8"):
        classes_in(write(tmp_path, "path,label\nä.png,cat\n", "latin-1"), FILES)
    with pytest.raises(UserError, match=r"absent\.csv cannot be read"):
        classes_in(tmp_path / "absent.csv", FILES)


def test_read_labels_csv_leaves_out_unlabelled_files(tmp_path):
    assert classes_in(write(tmp_path, "path,label\na.png,\nb.png,dog\n"), FILES) == {"b.png": "dog"}


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_file_names_match_in_either_form_of_unicode(tmp_path, stored, written):
    file = normalize(stored, "Übung/é 가.png")
    path = write(tmp_path, f"path,label\n{normalize(written, file)},cat\n")
    assert classes_in(path, {file, "a.png"}) == {file: "cat"}


def test_exact_form_of_a_file_name_comes_first(tmp_path):
    files = [normalize(form, "é.png") for form in ("NFC", "NFD")]
    path = write(tmp_path, f"path,label\n{files[0]},cat\n{files[1]},dog\n")
    assert classes_in(path, set(files)) == dict(zip(files, ("cat", "dog"), strict=True))


def test_words_for_unlabelled_leave_a_file_unlabelled(tmp_path):
    path = write(tmp_path, "path,label\na.png,cat\nb.png,Unknown\n")
    read = read_labels_csv(path, FILES)
    assert {file: row.label for file, row in read.items()} == {"a.png": "cat"}
    assert read.notes == (f"{path}: 'Unknown' is taken as unlabelled (1)",)
