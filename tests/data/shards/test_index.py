from dataclasses import asdict

import numpy as np
import pytest

from surelabel.data.shards import index as shard_index
from surelabel.data.shards.index import NAME, read_index
from surelabel.data.shards.source import find_parts
from surelabel.utils import cache
from surelabel.utils.errors import UserError
from tests.helpers.images import png
from tests.helpers.shards import write_shards as write


@pytest.fixture(autouse=True)
def cache_root(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def index(folder):
    return read_index(folder, find_parts(folder))


TWO = {
    "train-0.tar": {"0.png": png(), "0.cls": b"1", "1.png": png(), "1.cls": b"0"},
    "train-1.tar": {"0.png": png((3, 3)), "2.png": png(), "2.cls": b"1"},
    "test-0.tar": {"0.png": png(), "0.cls": b"0"},
}


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "s", TWO, ["cat", "dog"])


def assert_same(found, expected):
    assert found.head == expected.head
    np.testing.assert_array_equal(found.rows, expected.rows)


def test_read_index_locates_every_image_and_maps_the_file_afterwards(folder, monkeypatch):
    found = index(folder)
    assert (found.head.counts, found.head.classes) == ({"train": 4, "test": 1}, ["cat", "dog"])
    assert (found.head.height, found.head.width, found.head.alike, found.head.grey) == (4, 6, 4, False)
    np.testing.assert_array_equal(found.rows[0], [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(found.rows[3], [1, 0, -1, 1, 0])
    for shard, offset, size, _ in found.rows.T:
        held = (folder / found.head.files[shard][0]).read_bytes()
        assert held[offset : offset + size].startswith(b"\x89PNG")
    monkeypatch.setattr(shard_index, "read_samples", lambda path: pytest.fail("read again"))
    again = index(folder)
    assert_same(again, found)
    assert isinstance(again.rows.base, np.memmap)
    assert not again.rows.flags.writeable


@pytest.mark.parametrize("change", ["shard", "classes", "name"])
def test_read_index_rebuilds_after_a_change(folder, change):
    index(folder)
    if change == "shard":
        write(folder, {"train-1.tar": {"9.png": png()}})
        assert index(folder).head.counts["train"] == 3
    elif change == "classes":
        write(folder, {}, ["cat", "dog", "mouse"])
        assert index(folder).head.classes == ["cat", "dog", "mouse"]
    else:
        (folder / "train-1.tar").rename(folder / "train-2.tar")
        assert index(folder).head.files[1][0] == "train-2.tar"


def test_read_index_rebuilds_a_damaged_index(folder):
    right = index(folder)
    content = (folder / NAME).read_bytes()
    for damaged in (content[:-20], bytes(len(content)), b"", content.replace(b"cat", b"cow")):
        (folder / NAME).write_bytes(damaged)
        assert_same(index(folder), right)
        assert (folder / NAME).read_bytes() == content


@pytest.mark.parametrize(("row", "value"), [(0, 9), (0, -1), (1, 10**9), (1, -1), (2, 2**40), (2, 0), (3, 2), (3, -2)])
def test_read_index_rejects_impossible_rows_though_the_checksum_is_right(folder, row, value):
    right = index(folder)
    rows = right.rows.copy()
    rows[row, 1] = value
    cache.store(folder / NAME, rows, version=shard_index.VERSION, **asdict(right.head))
    assert_same(index(folder), right)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": [1, 2]}, {"height": "4"}, {"counts": {"train": -5}}, {"counts": {"train": 3, "test": 1}},
        {"counts": [1]}, {"skipped": {}}, {"alike": "4"}, {"extra": 1},
    ],
)  # fmt: skip
def test_read_index_rejects_impossible_heads_though_the_checksum_is_right(folder, change):
    right = index(folder)
    cache.store(folder / NAME, right.rows, **{"version": shard_index.VERSION, **asdict(right.head), **change})
    assert_same(index(folder), right)


def test_read_index_uses_the_cache_if_the_folder_is_read_only(folder, cache_root, monkeypatch):
    atomic_write = cache.atomic_write

    def read_only(path, mode):
        if path.parent == folder:
            raise UserError("read-only")
        return atomic_write(path, mode)

    monkeypatch.setattr(cache, "atomic_write", read_only)
    index(folder)
    assert not (folder / NAME).exists()
    assert len(list((cache_root / "shards").iterdir())) == 1
    monkeypatch.setattr(shard_index, "read_samples", lambda path: pytest.fail("read again"))
    index(folder)


def test_read_index_works_without_a_home_or_says_why_not(folder, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    def read_only(path, mode):
        raise UserError(f"cannot write {path}: Read-only file system")

    monkeypatch.delenv("SURELABEL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", homeless)
    assert index(folder).head.counts["train"] == 4
    (folder / NAME).unlink()
    monkeypatch.setattr(cache, "atomic_write", read_only)
    with pytest.raises(UserError, match=r"cannot write .*\.surelabel-index: Read-only"):
        index(folder)


def one(label):
    return {"0.png": png(), "0.cls": label}


@pytest.mark.parametrize(
    ("shards", "classes", "message"),
    [
        ({"0.tar": one(b"0"), "1.tar": one(b"cat")}, None, r"by name and others by number \(0 in 0\.tar but 'cat'"),
        ({"0.tar": one(b"2")}, ["a", "b"], "has the class 2, not 0 to 1"),
        ({"0.tar": one(b"c")}, ["a", "b"], "has the class 'c', not one of a, b"),
        ({"0.tar": one(b"-3")}, None, "has the class -3"),
        ({"0.tar": one(b"99999999")}, None, "too large for a class number"),
        ({"train-0.tar": one(b"a"), "test-0.tar": one(b"b")}, None, "has the class 'b', not one of a"),
        ({"0.tar": one(b"a")}, {"a": 1}, "must be a list of class names"),
        ({"0.tar": one(b"a")}, ["a", "a"], "unique"),
        ({"0.tar": {"0.png": b"words"}}, None, r"no image of the train shards .*\(1 members skipped: 0\.tar/0"),
        ({"train-0.tar": one(b"a"), "val-0.tar": {}}, None, "no image of the test shards"),
    ],
)
def test_read_index_rejects_inconsistent_labels(tmp_path, shards, classes, message):
    with pytest.raises(UserError, match=message):
        index(write(tmp_path / "s", shards, classes))


@pytest.mark.parametrize(
    ("labels", "classes", "names", "numbers"),
    [
        ([b"b", b"a", b"b"], None, ["a", "b"], [1, 0, 1]),
        ([b"b", b"a", b"b"], ["b", "z", "a"], ["b", "z", "a"], [0, 2, 0]),
        ([b"2", b"0", b"-1"], None, ["0", "1", "2"], [2, 0, -1]),
    ],
)
def test_read_index_numbers_classes(tmp_path, labels, classes, names, numbers):
    shards = {f"{number}.tar": one(label) for number, label in enumerate(labels)}
    found = index(write(tmp_path / "s", shards, classes))
    assert found.head.classes == names
    assert found.rows[3].tolist() == numbers
