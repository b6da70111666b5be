"""Spellings of classes, and words for none, in whatever holds the labels."""

import json
from pathlib import Path, PurePosixPath
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.arrays.files import load_npz
from surelabel.data.class_names import class_name, class_names
from surelabel.data.images import folder
from surelabel.data.shards import source as shards
from surelabel.data.tables import source as tables
from surelabel.utils.errors import UserError
from tests.helpers.images import png, write_files
from tests.helpers.shards import write_shards

NONE = ["unlabelled", "Unlabeled", "UNKNOWN", "?", "unknown ", ""]
CAFE = ["caf\u00e9", "cafe\u0301", " cafe\u0301", "caf\u00e9\u200b", "\ufeffcaf\u00e9\xa0"]


@pytest.mark.parametrize("spelling", CAFE)
def test_what_cannot_be_seen_makes_no_class(spelling):
    assert class_name(spelling) == "caf\u00e9"
    names = class_names([spelling, "caf\u00e9", "tea"])
    assert names.classes == ["caf\u00e9", "tea"]
    assert len(names.notes) == (spelling != "caf\u00e9")


def test_joiners_are_kept_where_they_are_seen():
    for name in ("👩\u200d🔬", "می\u200cخواهم"):
        assert class_name(name) == name
    assert class_name("cat\u200d") == "cat"


def test_control_characters_are_in_no_name():
    assert class_name("a\x1b[2J\u202eb\tc\n") == "a[2Jb c"


@given(st.text())
def test_class_name_of_a_class_is_itself(text):
    name = class_name(text)
    assert class_name(name) == name
    assert normalize("NFC", name) == name


def test_capitals_are_asked_about_and_words_counted():
    names = class_names(["cat", "Cat", "?", "unknown", "?", "", "missing"])
    assert names.classes == ["Cat", "cat", "missing"]
    assert names.notes == (
        "'?' is taken as unlabelled (2)",
        "'unknown' is taken as unlabelled (1)",
        "Is 'missing' a class? If it means unlabelled, write that",
        "Are 'Cat', 'cat' different classes? They are taken for such",
    )


def test_words_that_may_be_either_are_refused():
    for word in ("NA", "None", " NaN"):
        with pytest.raises(UserError, match=word.strip()):
            class_names(["a", word])


def of_npz(root, written):
    np.savez(root / "x.npz", images=np.zeros((len(written), 4)), labels=np.array(written))
    return load_npz(root / "x.npz")


def of_table(root, written):
    rows = [f"{number % 3},{json.dumps(name, ensure_ascii=False)}" for number, name in enumerate(written)]
    (root / "x.csv").write_text("\n".join(["a,label", *rows]))
    return tables.load(root / "x.csv")


def of_labels_csv(root, written):
    names = {f"{number}.png": name for number, name in enumerate(written)}
    write_files(root / "p", dict.fromkeys(names, png()))
    rows = [f"{file},{json.dumps(name, ensure_ascii=False)}" for file, name in names.items()]
    (root / "p" / "labels.csv").write_text("\n".join(["path,label", *rows]))
    return folder.load(root / "p")


def of_folders(root, written):
    write_files(root / "p", {str(Path(name, f"{number}.png")): png() for number, name in enumerate(written)})
    return folder.load(root / "p")


def of_shard_json(root, written):
    files = {}
    for number, name in enumerate(written):
        files |= {f"{number:02}.png": png(), f"{number:02}.json": json.dumps({"label": name}).encode()}
    return shards.load(write_shards(root / "s", {"x.tar": files}))


def of_shard_cls(root, written):
    files = {}
    for number, name in enumerate(written):
        files |= {f"{number:02}.png": png(), f"{number:02}.cls": name.encode()}
    return shards.load(write_shards(root / "s", {"x.tar": files}))


def of_shard_folders(root, written):
    files = {str(PurePosixPath(name, f"{number:02}.png")): png() for number, name in enumerate(written)}
    return shards.load(write_shards(root / "s", {"x.tar": files}))


@pytest.mark.parametrize(
    "load", [of_npz, of_table, of_labels_csv, of_folders, of_shard_json, of_shard_cls, of_shard_folders]
)
def test_every_kind_of_data_reads_names_alike(load, tmp_path):
    data = load(tmp_path, ["Tea", *CAFE, *NONE, "tea"])
    train = data.train
    assert train.classes == ("Tea", "caf\u00e9", "tea")
    assert sorted(train.labels.tolist()) == [-1] * len(NONE) + [0] + [1] * len(CAFE) + [2]
    said = " ".join(train.notes)
    assert "'?' is taken as unlabelled (1)" in said
    assert "taken for one class, 'caf\u00e9'" in said
    assert "Are 'Tea', 'tea' different classes?" in said
    with pytest.raises(UserError, match="None may be a class or mean unlabelled"):
        (tmp_path / "other").mkdir()
        load(tmp_path / "other", ["tea", "None", "x"])
