import json
import os
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from surelabel.data.images import cache as picture_cache
from surelabel.data.images import folder
from surelabel.data.images.cache import decoded
from surelabel.data.images.decode import Header
from surelabel.utils.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    place = tmp_path / "cache"
    monkeypatch.setenv("SURELABEL_CACHE", str(place))
    return place


@pytest.fixture
def pictures(tmp_path):
    place = tmp_path / "pictures"
    place.mkdir()
    random = np.random.default_rng(0)
    for number in range(150):
        Image.fromarray(random.integers(0, 256, (6, 5, 3), dtype=np.uint8)).save(place / f"{number:03}.png")
    return place


@pytest.fixture
def decodings(monkeypatch):
    """The files that were decoded."""
    done = []
    original = picture_cache.decode

    def counted(path, *form):
        done.append(path.name)
        return original(path, *form)

    monkeypatch.setattr(picture_cache, "decode", counted)
    return done


def names(place):
    return sorted(file.name for file in place.iterdir())


def as_pillow_reads_them(place):
    return np.stack([np.asarray(Image.open(place / name)).transpose(2, 0, 1) for name in names(place)])


def look(place):
    found = decoded(place, names(place))
    return np.array(found.images[[found.files[name].row for name in names(place)]])


def test_a_second_look_decodes_nothing_and_sees_the_same(pictures, decodings, cache):
    first = look(pictures)
    np.testing.assert_array_equal(first, as_pillow_reads_them(pictures))
    assert len(decodings) == 150
    np.testing.assert_array_equal(look(pictures), first)
    assert len(decodings) == 150
    assert len(list(cache.iterdir())) == 2
    assert isinstance(decoded(pictures, names(pictures)).images, np.memmap)


def test_only_what_is_new_is_decoded(pictures, decodings, cache):
    look(pictures)
    decodings.clear()
    os.utime(pictures / "000.png")  # touched
    (pictures / "001.png").rename(pictures / "z.png")
    (pictures / "002.png").unlink()
    shutil.copyfile(pictures / "003.png", pictures / "copy.png")
    Image.new("RGB", (5, 6), "red").save(pictures / "004.png")  # changed
    Image.new("RGB", (5, 6), "blue").save(pictures / "new.png")
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert sorted(decodings) == ["004.png", "new.png"]
    assert len(list(cache.glob("*.pixels"))) == 1


@pytest.mark.parametrize("how", ["pixels", "shorter", "list", "gone", "other list", "a path outside"])
def test_a_damaged_cache_is_made_anew(pictures, decodings, cache, how):
    first = look(pictures)
    (pixels,), (listed,) = cache.glob("*.pixels"), cache.glob("*.json")
    content = pixels.read_bytes()
    if how == "pixels":
        pixels.write_bytes(bytes(len(content)))
    elif how == "shorter":
        pixels.write_bytes(content[:-1])
    elif how == "list":
        listed.write_text(listed.read_text()[:-5])
    elif how == "gone":
        pixels.unlink()
    elif how == "other list":
        listed.write_text("[1, 2]")
    else:
        (cache.parent / "secret").write_bytes(content)
        listed.write_text(json.dumps(json.loads(listed.read_text()) | {"pixels": "../secret"}))
    decodings.clear()
    np.testing.assert_array_equal(look(pictures), first)
    assert len(decodings) == 150


def test_forms_are_kept_apart(pictures, decodings):
    look(pictures)
    small = decoded(pictures, names(pictures), Header(3, 3, grey=True))
    assert small.images.shape == (150, 1, 3, 3)
    assert decoded(pictures, names(pictures), 4).images.shape == (150, 3, 4, 4)
    look(pictures)
    assert len(decodings) == 3 * 150


def test_unreadable_files_are_named_each_time(pictures):
    (pictures / "note.txt").write_text("not a picture")
    (pictures / "empty.png").touch()
    for _ in range(2):
        found = decoded(pictures, names(pictures))
        assert found.skipped == {"note.txt": "not named as an image", "empty.png": "the file is empty"}
        assert len(found.files) == 150


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_done_without(pictures, cache):
    cache.mkdir()
    cache.chmod(0o500)
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert not list(cache.iterdir())


def test_a_cache_below_a_file_is_done_without(pictures, cache, monkeypatch):
    (cache.parent / "file").touch()
    monkeypatch.setenv("SURELABEL_CACHE", str(cache.parent / "file" / "below"))
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))


def test_progress_is_told(pictures):
    told = []
    decoded(pictures, names(pictures), progress=lambda *numbers: told.append(numbers))
    assert told == [(100, 150), (150, 150)]


def test_a_folder_of_pictures_is_mapped(pictures):
    source = folder.load_unlabelled(pictures, ("a", "b"), (3, 6, 5))
    np.testing.assert_array_equal(source.samples(np.arange(150)), as_pillow_reads_them(pictures))
    assert type(source.samples(np.arange(2))) is np.ndarray


def test_a_file_that_was_mended_is_read(pictures):
    (pictures / "new.png").write_bytes(b"not yet a picture")
    assert "new.png" in decoded(pictures, names(pictures)).skipped
    Image.new("RGB", (5, 6), "blue").save(pictures / "new.png")
    assert "new.png" in decoded(pictures, names(pictures)).files


@pytest.mark.parametrize("step", ["read_header", "decode"])
@pytest.mark.parametrize(
    ("error", "tried_again"),
    [
        (PermissionError(13, "Permission denied"), True),
        (MemoryError(), True),
        (OSError("image file is truncated"), False),
    ],
)
def test_a_file_whose_reading_failed_for_a_passing_reason_is_tried_again(
    pictures, monkeypatch, step, error, tried_again
):
    original = getattr(picture_cache, step)

    def failing(path, *form):
        if path.name == "007.png":
            raise error
        return original(path, *form)

    with monkeypatch.context() as patched:
        patched.setattr(picture_cache, step, failing)
        assert list(decoded(pictures, names(pictures)).skipped) == ["007.png"]
    assert ("007.png" in decoded(pictures, names(pictures)).files) == tried_again


def test_while_the_reason_lasts_the_cache_is_not_written_anew(pictures, cache):
    (pictures / "nowhere.png").symlink_to(pictures / "absent")
    found = []
    for _ in range(2):
        assert list(decoded(pictures, names(pictures)).skipped) == ["nowhere.png"]
        found.append(list(cache.glob("*.pixels")))
    assert found[0] == found[1]


def test_an_interrupted_reading_leaves_nothing(pictures, cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(picture_cache, "decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            look(pictures)
    assert not list(cache.iterdir())


def test_what_a_killed_reading_has_left_goes_after_a_day(pictures, cache):
    look(pictures)
    (listed,) = cache.glob("*.json")
    old, young, other = (cache / f"{name}.pixels" for name in (f"{listed.stem}-1", f"{listed.stem}-2", "pictures-x-1"))
    for path in (old, young, other):
        path.touch()
    two_days_ago = time.time() - 2 * 86_400
    for path in (old, other):
        os.utime(path, (two_days_ago, two_days_ago))
    (pictures / "000.png").unlink()
    look(pictures)
    assert (old.exists(), young.exists(), other.exists()) == (False, True, True)
    assert len(list(cache.glob("*.pixels"))) == 3


def test_of_files_that_are_as_before_not_even_the_header_is_read(pictures, monkeypatch):
    look(pictures)
    os.utime(pictures / "000.png")
    read, original = [], picture_cache.read_header
    monkeypatch.setattr(picture_cache, "read_header", lambda path: read.append(path.name) or original(path))
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert read == ["000.png"]


def test_without_room_for_a_new_list_the_earlier_one_keeps_its_pixels(pictures, cache, monkeypatch):
    def full(path):
        raise UserError(f"cannot write {path}: No space left on device")

    look(pictures)
    (pixels,) = cache.glob("*.pixels")
    os.utime(pixels, (0, 0))
    (pictures / "000.png").unlink()
    monkeypatch.setattr(picture_cache, "atomic_write", full)
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert list(cache.glob("*.pixels")) == [pixels]
