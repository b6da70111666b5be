import os

import numpy as np
import pytest
from PIL import Image

from surelabel.data.images import cache as picture_cache
from surelabel.data.images import folder
from surelabel.data.statistics import channel_statistics
from surelabel.utils.errors import UserError
from tests.helpers.images import picture, write_files


def everything(source):
    return source.samples(np.arange(len(source)))


def as_arrays(*images):
    return np.stack([np.asarray(image).transpose(2, 0, 1) for image in images])


FOUR = {
    "dog/b.png": picture(0),
    "cat/a.png": picture(1),
    "cat/deeper/a b ü.png": picture(2),
    "große Katze/x.png": picture(3),
}


def test_load_takes_a_folder_per_class(tmp_path):
    write_files(tmp_path, FOUR)
    data = folder.load(tmp_path)
    order = sorted(FOUR)
    assert data.train.paths == tuple(order)
    assert data.classes == ("cat", "dog", "große Katze")
    assert [data.classes[label] for label in data.train.labels] == [name.split("/")[0] for name in order]
    np.testing.assert_array_equal(everything(data.train), as_arrays(*(FOUR[name] for name in order)))
    assert (data.test, data.train.skipped) == (None, ())
    assert (data.offset, data.scale) == channel_statistics(data.train)


def test_train_test_and_unlabelled_folders(tmp_path):
    write_files(tmp_path / "train", FOUR)
    write_files(tmp_path, {"train/unlabeled/u.png": picture(4), "train/loose.png": picture(5)})
    write_files(tmp_path, {"unlabelled/v.png": picture(6), "unlabelled/deep/er/w.png": picture(6)})
    write_files(tmp_path, {"test/dog/t.png": picture(7), "test/cat/t.png": picture(8)})
    data = folder.load(tmp_path)
    classes = dict(zip(data.train.paths, data.train.labels, strict=True))
    assert {path for path, label in classes.items() if label == -1} == {
        "train/unlabeled/u.png",
        "train/loose.png",
        "unlabelled/v.png",
        "unlabelled/deep/er/w.png",
    }
    assert data.classes[classes["train/dog/b.png"]] == "dog"
    assert data.test.paths == ("test/cat/t.png", "test/dog/t.png")
    np.testing.assert_array_equal(data.test.labels, [0, 1])
    assert data.test.classes == data.classes == ("cat", "dog", "große Katze")
    np.testing.assert_array_equal(everything(data.test), as_arrays(picture(8), picture(7)))


def test_load_takes_a_class_named_train(tmp_path):
    write_files(tmp_path, {"train/a.png": picture(0), "car/b.png": picture(1)})
    assert folder.load(tmp_path).classes == ("car", "train")


@pytest.mark.parametrize("other", ["val", "extra"])
def test_folders_beside_train_and_test_are_not_passed_over_silently(tmp_path, other):
    write_files(tmp_path, {"train/a/a.png": picture(0), "test/a/b.png": picture(1), f"{other}/a/c.png": picture(2)})
    with pytest.raises(UserError, match=f"has {other} beside train"):
        folder.load(tmp_path)


def test_files_that_the_table_does_not_name_are_unlabelled(tmp_path):
    write_files(tmp_path, {"x/a.png": picture(0), "b ü.png": picture(1), "x/c.png": picture(2)})
    write_files(tmp_path, {"labels.csv": "\ufefffile,class\nx/c.png,dog\nb ü.png,cat\n".encode()})
    data = folder.load(tmp_path)
    assert data.train.paths == ("b ü.png", "x/a.png", "x/c.png")
    np.testing.assert_array_equal(data.train.labels, [0, -1, 1])
    assert (data.classes, data.train.skipped) == (("cat", "dog"), ())


def test_load_takes_a_label_table_from_elsewhere(tmp_path):
    write_files(tmp_path / "data", {"train/a.png": picture(0), "train/b.png": picture(1), "test/c.png": picture(2)})
    table = tmp_path / "mine.csv"
    table.write_text("path,label\ntrain/a.png,cat\ntest/c.png,cat\n")
    data = folder.load(tmp_path / "data", label_files=[table])
    np.testing.assert_array_equal(data.train.labels, [0, -1])
    np.testing.assert_array_equal(data.test.labels, [0])


def test_labelled_images_take_the_numbers_of_given_classes_and_others_are_unknown(tmp_path):
    write_files(tmp_path, FOUR)
    source = folder.load_labelled(tmp_path, ["mouse", "große Katze", "dog", "cat"], (3, 10, 12))
    np.testing.assert_array_equal(source.labels, [3, 3, 2, 1])
    with pytest.raises(UserError, match="has the class 'dog', not one of cat, große Katze"):
        folder.load_labelled(tmp_path, ["cat", "große Katze"], (3, 10, 12))


def test_load_does_not_skip_the_label_table(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "pictures"
    write_files(place, {"a.png": picture(0), "b.png": picture(1), "labels.csv": b"path,label\na.png,cat\n"})
    labelled = folder.load_labelled(place, ["cat", "dog"], (3, 10, 12))
    made = list((tmp_path / "cache").glob("*.pixels"))
    everything = folder.load_unlabelled(place, ["cat", "dog"], (3, 10, 12))
    assert (len(labelled), len(everything)) == (1, 2)
    assert not everything.skipped
    assert made
    assert list((tmp_path / "cache").glob("*.pixels")) == made  # one cache for both


def test_load_rejects_an_unknown_test_class(tmp_path):
    write_files(tmp_path, {"train/cat/a.png": picture(0), "test/dgo/b.png": picture(1)})
    with pytest.raises(UserError, match=r"test/dgo/b\.png has the class 'dgo', not one of cat"):
        folder.load(tmp_path)


def test_load_rejects_a_test_image_without_class(tmp_path):
    write_files(tmp_path, {"train/cat/a.png": picture(0), "test/b.png": picture(1)})
    with pytest.raises(UserError, match=r"test file test/b\.png has no class"):
        folder.load(tmp_path)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P"])
def test_other_modes_join_a_colour_set(tmp_path, mode):
    suffix = "tif" if mode == "CMYK" else "png"
    image = picture(1, mode=mode)
    write_files(tmp_path, {"a/0.png": picture(0), f"b/1.{suffix}": image})
    np.testing.assert_array_equal(everything(folder.load(tmp_path).train), as_arrays(picture(0), image.convert("RGB")))


def test_sixteen_bit_images_join_a_grey_set_of_one_channel(tmp_path):
    deep = np.random.default_rng(0).integers(0, 65_536, (10, 12)).astype(np.uint16)
    write_files(tmp_path, {"a/0.png": picture(0, mode="L"), "b/1.png": Image.fromarray(deep)})
    data = folder.load(tmp_path)
    assert data.train.shape == (1, 10, 12)
    images = everything(data.train)
    np.testing.assert_array_equal(images[0, 0], np.asarray(picture(0, mode="L")))
    np.testing.assert_array_equal(images[1, 0], np.rint(deep / 257))


@pytest.mark.parametrize(
    ("sizes", "size", "expected"),
    [
        ([(12, 10)] * 3, None, (10, 12)),
        ([(12, 10)] * 2 + [(40, 40)], None, (10, 12)),
        ([(12, 10), (40, 40), (9, 9)], None, (32, 32)),
        ([(12, 10)] * 3, 16, (16, 16)),
    ],
)
def test_load_scales_to_the_asked_or_common_size(tmp_path, sizes, size, expected):
    write_files(tmp_path, {f"a/{number}.png": picture(number, size=one) for number, one in enumerate(sizes)})
    assert folder.load(tmp_path, size=size).train.shape == (3, *expected)


def test_files_that_cannot_be_used_are_skipped_and_listed_with_the_reason(tmp_path):
    write_files(tmp_path, FOUR)
    half = tmp_path / "cat/half.png"
    picture(5, size=(50, 50)).save(half)
    half.write_bytes(half.read_bytes()[:-2000])
    write_files(
        tmp_path, {"cat/empty.png": b"", "cat/words.png": b"words", "dog/notes.txt": b"notes", "dog/.hidden.png": b""}
    )
    write_files(
        tmp_path, {"cat/script.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "__MACOSX/cat/x.png": b""}
    )
    data = folder.load(tmp_path)
    assert data.train.paths == tuple(sorted(FOUR))
    np.testing.assert_array_equal(everything(data.train), as_arrays(*(FOUR[name] for name in sorted(FOUR))))
    skipped = dict(data.train.skipped)
    assert skipped.keys() == {"cat/empty.png", "cat/half.png", "cat/script.jpg", "cat/words.png", "dog/notes.txt"}
    assert skipped["cat/empty.png"] == "the file is empty"
    assert skipped["cat/words.png"] == skipped["cat/script.jpg"] == "not an image of a known format"
    assert "truncated" in skipped["cat/half.png"]
    assert skipped["dog/notes.txt"] == "not named as an image"


def test_load_skips_too_large_images(tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.data.images.limits.most_pixels", lambda: 200)
    write_files(tmp_path, FOUR | {"cat/large.png": picture(0, size=(15, 14))})
    assert [name for name, _ in folder.load(tmp_path).train.skipped] == ["cat/large.png"]


def test_names_that_are_not_utf_8_are_skipped_in_printable_form(tmp_path):
    write_files(tmp_path, FOUR)
    picture(0).save(tmp_path / "cat/q.png")
    try:
        (tmp_path / "cat/q.png").rename(tmp_path / "cat" / os.fsdecode(b"\xff.png"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert folder.load(tmp_path).train.skipped == (("cat/\\udcff.png", "the name of the file is not UTF-8"),)


def test_links_to_class_folders_are_followed_and_loops_are_not(tmp_path):
    write_files(tmp_path / "elsewhere", {"a.png": picture(0)})
    write_files(tmp_path / "data", {"dog/b.png": picture(1)})
    (tmp_path / "data/cat").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "data/dog/loop").symlink_to(tmp_path / "data", target_is_directory=True)
    data = folder.load(tmp_path / "data")
    assert data.train.paths == ("cat/a.png", "dog/b.png")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "not one image can be read"),
        (
            {"a/x.png": b"", "b/y.png": b"words"},
            r"not one image can be read \(2 files skipped: a/x\.png: the file is empty",
        ),
        ({"a/x.png": picture(0), "b/y.png": b"words"}, r"no training file of class 'b' can be read \(1 files skipped"),
        ({"train/a/x.png": picture(0), "test/a/y.png": b""}, "not one image can be read"),
    ],
)
def test_load_rejects_a_folder_without_images(tmp_path, files, message):
    write_files(tmp_path, files)
    with pytest.raises(UserError, match=message):
        folder.load(tmp_path)


def test_load_names_an_empty_class_folder(tmp_path):
    write_files(tmp_path, FOUR)
    (tmp_path / "bird").mkdir()
    with pytest.raises(UserError, match="no training file of class 'bird' can be read"):
        folder.load(tmp_path)


def test_load_rejects_what_would_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(picture_cache, "MOST_BYTES", 1000)
    monkeypatch.setattr(picture_cache, "decode", lambda *_: pytest.fail("decoded"))
    write_files(tmp_path, FOUR)
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "dog" / "b.png" / "below a file"))
    with pytest.raises(UserError, match=r"4 images of 10 × 12 pixels take .* give a smaller size"):
        folder.load(tmp_path)


def test_load_rejects_a_missing_folder_and_a_wrong_size(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        folder.load(tmp_path / "absent")
    with pytest.raises(UserError, match="at least 1 pixel"):
        folder.load(tmp_path, size=0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("path,label\ncat/a.png,cat\nnone.png,cat\n", r"names 1 files that are not in the data folder .*: none\.png"),
        ("path,label\ncat/a.png,cat\ncat/a.png,dog\n", "lines 2 and 3"),
        ("path,label\ncat/a.png,\n", "names no class of any sample"),
        ("path,label\ncat/a.png,cat\ndog/b.png,NA\n", "line 3: NA may be a class or mean unlabelled"),
        ("path,label\n../a.png,cat\n", "leads out of the data folder"),
    ],
)
def test_load_stops_at_a_wrong_label_table(tmp_path, table, message):
    write_files(tmp_path, FOUR | {"labels.csv": table.encode()})
    with pytest.raises(UserError, match=message):
        folder.load(tmp_path)


def test_load_knows_which_labels_were_suggested(tmp_path):
    """The column `drawn` says it; labels of a table without one are taken for random, and a later table prevails."""
    write_files(tmp_path / "pictures", {f"{seed}.png": picture(seed) for seed in range(6)})
    (tmp_path / "first.csv").write_text("path,label\n0.png,a\n1.png,b\n")
    (tmp_path / "next.csv").write_text(
        "rank,sample,label,drawn\n1,4.png,a,suggested\n2,5.png,,suggested\n3,3.png,a,\n4,2.png,b,Random\n"
    )
    (tmp_path / "last.csv").write_text("sample,label,drawn\n4.png,b,random\n0.png,a,suggested\n")
    tables = [tmp_path / f"{name}.csv" for name in ("first", "next", "last")]
    data = folder.load(tmp_path / "pictures", 8, tables[:2])
    assert data.train.suggested.tolist() == [False, False, False, False, True, False]
    assert folder.load(tmp_path / "pictures", 8, tables).train.suggested.tolist() == [True] + 5 * [False]
