import os

import numpy as np
import pytest
from PIL import Image

from surelabel.data.images import cache as picture_cache
from surelabel.data.images import folder
from surelabel.data.images.cache import decoded
from surelabel.data.images.decode import Header


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
    """Names of the decoded files."""
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
    return np.array(found.images[[found.rows[name] for name in names(place)]])


def test_decoded_maps_the_stored_images_the_second_time(pictures, decodings, cache):
    first = look(pictures)
    np.testing.assert_array_equal(first, as_pillow_reads_them(pictures))
    assert len(decodings) == 150
    np.testing.assert_array_equal(look(pictures), first)
    assert len(decodings) == 150
    assert sorted(path.suffix for path in cache.iterdir()) == [".TAG", ".lock", ".pixels"]
    assert isinstance(decoded(pictures, names(pictures)).images, np.memmap)


@pytest.mark.parametrize("change", ["touched", "renamed", "removed", "added", "replaced"])
def test_decoded_starts_over_when_the_folder_has_changed(pictures, decodings, cache, change):
    look(pictures)
    decodings.clear()
    first = pictures / "000.png"
    if change == "touched":
        os.utime(first)
    elif change == "renamed":
        first.rename(pictures / "z.png")
    elif change == "removed":
        first.unlink()
    else:
        Image.new("RGB", (5, 6), "red").save(pictures / ("new.png" if change == "added" else "000.png"))
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert sorted(decodings) == names(pictures)
    assert len(list(cache.glob("*.pixels"))) == 1


@pytest.mark.parametrize("damage", ["one pixel", "shorter", "description", "gone"])
def test_decoded_rebuilds_a_damaged_cache(pictures, decodings, cache, damage):
    first = look(pictures)
    (pixels,) = cache.glob("*.pixels")
    content = bytearray(pixels.read_bytes())
    if damage == "gone":
        pixels.unlink()
    elif damage == "shorter":
        pixels.write_bytes(content[:-1])
    else:
        content[7000 if damage == "one pixel" else -100] ^= 1
        pixels.write_bytes(content)
    decodings.clear()
    np.testing.assert_array_equal(look(pictures), first)
    assert len(decodings) == 150
    look(pictures)
    assert len(decodings) == 150


def test_decoded_keeps_forms_apart(pictures, decodings):
    look(pictures)
    small = decoded(pictures, names(pictures), Header(3, 3, grey=True))
    assert small.images.shape == (150, 1, 3, 3)
    assert decoded(pictures, names(pictures), 4).images.shape == (150, 3, 4, 4)
    look(pictures)
    assert len(decodings) == 3 * 150


def test_decoded_names_unreadable_files_each_time(pictures, decodings):
    (pictures / "note.txt").write_text("not a picture")
    (pictures / "empty.png").touch()
    (pictures / "nowhere.png").symlink_to(pictures / "absent")
    reasons = {"note.txt": "not named as an image", "empty.png": "the file is empty"}
    for _ in range(2):
        found = decoded(pictures, names(pictures))
        assert "No such file" in found.skipped.pop("nowhere.png")
        assert found.skipped == reasons
        assert len(found.rows) == 150
    assert len(decodings) == 150


def full_disk(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("reason", ["read-only", "below a file", "no room for pixels", "no room for the rest"])
def test_decoded_works_without_a_cache(pictures, cache, monkeypatch, reason):
    cache.mkdir()
    if reason == "read-only":
        monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    elif reason == "below a file":
        (cache.parent / "file").touch()
        monkeypatch.setenv("SURELABEL_CACHE", str(cache.parent / "file" / "below"))
    else:
        monkeypatch.setattr("os.posix_fallocate" if reason == "no room for pixels" else "os.fsync", full_disk)
    np.testing.assert_array_equal(look(pictures), as_pillow_reads_them(pictures))
    assert not [path for path in cache.iterdir() if path.suffix not in (".lock", ".TAG")]


def test_decoded_reports_progress(pictures):
    calls = []
    decoded(pictures, names(pictures), progress=lambda *numbers: calls.append(numbers))
    assert calls == [(100, 150), (150, 150)]


def test_load_unlabelled_maps_the_cache(pictures):
    source = folder.load_unlabelled(pictures, ("a", "b"), (3, 6, 5))
    np.testing.assert_array_equal(source.samples(np.arange(150)), as_pillow_reads_them(pictures))
    assert type(source.samples(np.arange(2))) is np.ndarray


@pytest.mark.parametrize("step", ["read_header", "decode"])
@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (PermissionError(13, "Permission denied"), True),
        (MemoryError(), True),
        (OSError("image file is truncated"), False),
    ],
)
def test_decoded_retries_after_passing_errors(pictures, monkeypatch, step, error, retried):
    original = getattr(picture_cache, step)

    def failing(path, *form):
        if path.name == "007.png":
            raise error
        return original(path, *form)

    with monkeypatch.context() as patched:
        patched.setattr(picture_cache, step, failing)
        assert list(decoded(pictures, names(pictures)).skipped) == ["007.png"]
    assert ("007.png" in decoded(pictures, names(pictures)).rows) == retried


def test_decoded_leaves_nothing_when_interrupted(pictures, cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(picture_cache, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        look(pictures)
    assert not [path for path in cache.iterdir() if path.suffix not in (".lock", ".TAG")]


def test_decoded_serves_nothing_half_filled_after_a_failing_progress(pictures, cache):
    def broken_pipe(*_):
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        decoded(pictures, names(pictures), progress=broken_pipe)
    assert not list(cache.glob("*.pixels"))
