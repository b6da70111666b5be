import json
import tarfile

import pytest

from surelabel.data.images import limits
from surelabel.data.shards.samples import read_samples
from surelabel.utils.errors import UserError
from tests.helpers.images import png
from tests.helpers.shards import tar


def samples(tmp_path, contents, kinds=()):
    (tmp_path / "x.tar").write_bytes(tar(contents, kinds=kinds))
    return read_samples(tmp_path / "x.tar")


@pytest.mark.parametrize(
    ("contents", "label"),
    [
        ({"0.png": png()}, None),
        ({"0.png": png(), "0.cls": b"7"}, 7),
        ({"0.cls": b" cat\n", "0.png": png()}, "cat"),
        ({"0.png": png(), "0.cls": b"-1"}, None),
        ({"0.png": png(), "0.json": b'{"label": 3, "file": "x"}'}, 3),
        ({"0.png": png(), "0.json": b'{"class": "dog"}'}, "dog"),
        ({"0.png": png(), "0.json": b'{"label": "-1"}'}, None),
        ({"cat/0.png": png(), "cat/0.json": b'{"label": -1}'}, None),
        ({"0.png": png(), "0.json": b'{"caption": "a dog"}'}, None),
        ({"0.png": png(), "0.json": b'{"label": 3}', "0.cls": b"4"}, 4),
        ({"cat/0.png": png()}, "cat"),
        ({"./cat/deep/0.png": png()}, "cat"),
        ({"unlabelled/0.png": png()}, "unlabelled"),
        ({"cat/0.png": png(), "cat/0.cls": b" "}, ""),
        ({"cat/0.png": png(), "cat/0.json": b'{"label": ""}'}, ""),
        ({"cat/0.png": png(), "cat/0.cls": b"dog"}, "dog"),
    ],
)
def test_read_samples_finds_the_class(tmp_path, contents, label):
    found = samples(tmp_path, contents)
    assert found.labels == [label]
    assert (found.skipped, found.forms, found.grey) == ({}, {(4, 6): 1}, False)


def test_read_samples_locates_images_and_ignores_other_members(tmp_path):
    contents = {"a.JPG": png(), "a.txt": b"words", "b.png": png(mode="L"), "b.seg.png": png(), ".hidden.png": b""}
    found = samples(tmp_path, contents)
    held = (tmp_path / "x.tar").read_bytes()
    read = [held[offset : offset + size] for offset, size in zip(found.offsets, found.sizes, strict=True)]
    assert read == [contents["a.JPG"], contents["b.png"]]
    assert found.skipped == {}


def test_read_samples_gives_reasons_for_skipped_members(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "most_bytes", lambda: 1000)
    contents = {
        "good.png": png(),
        "../../etc/cron.png": png(),
        "/etc/x.png": png(),
        "empty.png": b"",
        "words.jpg": b"words",
        "large.png": bytes(1001),
        "alone.txt": b"",
        "IMG.2020.JPG": png(),
        "\udcff.png": png(),
    }
    kinds = [("link.png", tarfile.SYMTYPE, "/etc/passwd"), ("device.png", tarfile.BLKTYPE, "")]
    found = samples(tmp_path, contents, kinds)
    assert len(found.offsets) == 1
    assert found.skipped == {
        "../../etc/cron.png": "the path leads out of the archive",
        "/etc/x.png": "the path leads out of the archive",
        "empty.png": "the file is empty",
        "words.jpg": "not an image of a known format",
        "large.png": "1,001 bytes are more than 1,000: $SURELABEL_IMAGE_MEGABYTES sets the limit",
        "alone.txt": "no image has this name",
        "IMG.2020.jpg": "everything after the first dot (.2020.jpg) counts as the suffix: keep one dot in the name",
        "\\udcff.png": "the name of the file is not UTF-8",
        "link.png": "a link",
        "device.png": "neither a file nor a folder",
    }


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"0.png": png(), "0.cls": b"\xff"}, r"0\.cls is not UTF-8"),
        ({"0.png": png(), "0.cls": bytes(2**17)}, "131,072 bytes, too many for a label"),
        ({"0.png": png(), "0.json": b"{"}, r"0\.json: it is n"),
        ({"0.png": png(), "0.json": b"[" * 60_000}, r"0\.json: it is n"),
        ({"0.png": png(), "0.json": json.dumps({"label": [1]}).encode()}, r"label is \[1\]"),
        ({"0.png": png(), "0.json": json.dumps({"label": True}).encode()}, "label is True"),
        ({"0.png": png(), "0.jpg": png()}, "more than one image named 0"),
    ],
)
def test_read_samples_rejects_bad_labels_and_keys(tmp_path, contents, message):
    with pytest.raises(UserError, match=message):
        samples(tmp_path, contents)


def test_read_samples_rejects_a_repeated_name(tmp_path):
    first, second = tar({"0.png": png()}), tar({"0.png": png((9, 9))})
    end = first.index(bytes(1024), 512)
    (tmp_path / "x.tar").write_bytes(first[: -(-end // 512) * 512] + second)
    with pytest.raises(UserError, match="more than one image"):
        read_samples(tmp_path / "x.tar")
