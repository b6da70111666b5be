import numpy as np
import pytest

from surelabel.data.open import open_data
from surelabel.data.texts.folder import load, load_labelled, load_unlabelled
from surelabel.data.texts.source import MOST_CHARACTERS
from surelabel.utils.errors import UserError
from tests.helpers.images import png, write_files

EVERY = np.arange(3)


def write(root, files):
    """Write {path: text or bytes}."""
    write_files(
        root, {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}
    )
    return root


def test_load_takes_sub_folders_as_classes(tmp_path):
    files = {"train/good/a.txt": "fine", "train/bad/b.txt": "poor", "unlabelled/c.txt": "so so", "test/bad/d.txt": "no"}
    data = load(write(tmp_path, files))
    assert data.classes == ("bad", "good")
    assert data.train.files() == ["train/bad/b.txt", "train/good/a.txt", "unlabelled/c.txt"]
    assert data.train.texts(EVERY) == ["poor", "fine", "so so"]
    assert data.train.labels.tolist() == [0, 1, -1]
    assert data.test.texts(EVERY[:1]) == ["no"]


def test_load_takes_labels_csv(tmp_path):
    table = "path,label,drawn\na.txt,good,\nb.txt,bad,suggested\n"
    train = load(write(tmp_path, {"a.txt": "fine", "b.txt": "poor", "c.txt": "so so", "labels.csv": table})).train
    assert train.labels.tolist() == [1, 0, -1]
    assert train.suggested.tolist() == [False, True, False]
    assert not train.skipped


def test_load_reads_with_and_without_byte_order_mark(tmp_path):
    data = load(write(tmp_path, {"a/1.txt": b"\xef\xbb\xbfol\xc3\xa9", "b/2.txt": b"ol\xc3\xa9"}))
    assert data.train.texts(EVERY[:2]) == ["olé", "olé"]


def test_load_names_a_file_in_another_encoding(tmp_path):
    with pytest.raises(UserError, match=r"2\.txt is not UTF-8"):
        load(write(tmp_path, {"a/1.txt": "one", "b/2.txt": "olé".encode("latin-1")}))


def test_load_notes_empty_and_long_texts(tmp_path):
    train = load(write(tmp_path, {"a/1.txt": " \n", "b/2.txt": "x" * (MOST_CHARACTERS + 5), "b/3.txt": "one"})).train
    assert [len(text) for text in train.texts(EVERY)] == [2, MOST_CHARACTERS, 3]
    assert "a/1.txt" in train.notes[0]
    assert "b/2.txt" in train.notes[1]


def test_load_names_what_is_no_text(tmp_path):
    train = load(write(tmp_path, {"a/1.txt": "one", "b/2.txt": "two", "b/3.pdf": "three"})).train
    assert [file for file, _ in train.skipped] == ["b/3.pdf"]


def test_load_rejects_a_test_text_without_class(tmp_path):
    with pytest.raises(UserError, match=r"test/3\.txt has no class"):
        load(write(tmp_path, {"train/a/1.txt": "one", "train/b/2.txt": "two", "test/3.txt": "three"}))


def test_open_data_tells_texts_from_pictures(tmp_path):
    write(
        tmp_path, {"t/a/1.txt": "one", "t/b/2.txt": "two", "p/a/1.png": png(), "p/b/2.png": png(), "p/readme.txt": "hi"}
    )
    assert open_data(str(tmp_path / "t")).train.kind == "texts"
    assert open_data(str(tmp_path / "p")).train.kind == "samples"


def test_open_data_rejects_texts_among_pictures(tmp_path):
    write(tmp_path, {"a/1.txt": "one", "b/2.txt": "two", "a/1.png": png(), "b/2.png": png()})
    with pytest.raises(UserError, match="2 pictures and 2 texts"):
        open_data(str(tmp_path))


def test_new_texts_are_read_without_and_with_labels(tmp_path):
    write(tmp_path, {"b/1.txt": "one", "a/2.txt": "two", "unlabelled/3.txt": "three"})
    found = load_unlabelled(tmp_path, ("a", "b"))
    assert (found.texts(EVERY), found.labels.tolist()) == (["two", "one", "three"], [-1, -1, -1])
    known = load_labelled(tmp_path, ("a", "b"))
    assert (known.texts(EVERY[:2]), known.labels.tolist()) == (["two", "one"], [0, 1])
    with pytest.raises(UserError, match="'a'"):
        load_labelled(tmp_path, ("b", "c"))
