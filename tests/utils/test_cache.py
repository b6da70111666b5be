import multiprocessing
import time

import numpy as np
import pytest

from surelabel.utils import cache
from surelabel.utils.errors import UserError

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("array", [ARRAY, ARRAY.T, np.arange(3), np.zeros((0, 3), np.float32)])
def test_fetch_returns_what_was_stored(tmp_path, array):
    cache.store(tmp_path / "a", array, names=["é", "b"], count=2)
    found = cache.fetch(tmp_path / "a", array.dtype, count=2)
    np.testing.assert_array_equal(found.array, array)
    assert found.info == {"names": ["é", "b"], "count": 2}
    assert isinstance(found.array, np.memmap)
    assert not found.array.flags.writeable


def test_fetch_returns_none_if_absent_or_not_as_expected(tmp_path):
    assert cache.fetch(tmp_path / "a", np.float32) is None
    cache.store(tmp_path / "a", ARRAY, version=1)
    assert cache.fetch(tmp_path / "a", np.float32, version=2) is None
    assert cache.fetch(tmp_path / "a", np.float32, other=None, version=1) is not None
    assert cache.fetch(tmp_path / "a", np.float64) is None
    assert cache.fetch(tmp_path, np.float32) is None


def test_fetch_rejects_every_changed_byte_and_every_shorter_file(tmp_path):
    cache.store(tmp_path / "a", ARRAY, name="cat")
    content = (tmp_path / "a").read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x55
        (tmp_path / "b").write_bytes(changed)
        assert cache.fetch(tmp_path / "b", np.float32) is None, place
        (tmp_path / "b").write_bytes(content[:place])
        assert cache.fetch(tmp_path / "b", np.float32) is None, place


@pytest.mark.parametrize("shape", ["[2, 12.0]", "[-2, -12]", '"24"', "24", "null", "[[24]]", "[24, 1e400]"])
def test_fetch_rejects_impossible_shapes(tmp_path, shape):
    description = f'{{"shape": {shape}}}'.encode()
    end = cache.END.pack(len(description), cache._checksum(ARRAY, description), cache.MAGIC)
    (tmp_path / "a").write_bytes(ARRAY.tobytes() + description + end)
    assert cache.fetch(tmp_path / "a", np.float32) is None


def test_new_array_is_stored_on_leaving(tmp_path):
    with cache.new_array(tmp_path / "a", ARRAY.shape, np.float32) as (array, info):
        array[:] = ARRAY
        info["name"] = "cat"
        assert not (tmp_path / "a").exists()
    found = cache.fetch(tmp_path / "a", np.float32)
    np.testing.assert_array_equal(found.array, ARRAY)
    assert found.info == {"name": "cat"}


def test_new_array_leaves_nothing_after_an_error(tmp_path):
    with pytest.raises(KeyboardInterrupt), cache.new_array(tmp_path / "a", (3,), np.uint8):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", ["posix_fallocate", "fsync"])
def test_new_array_reports_a_full_disk(tmp_path, monkeypatch, step):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"os.{step}", full)
    with pytest.raises(UserError, match="No space left"), cache.new_array(tmp_path / "a", (3,), np.uint8) as (array, _):
        array[:] = 7
    assert not list(tmp_path.iterdir())
    if step == "fsync":
        assert array.tolist() == [7, 7, 7]


def test_content_key_depends_on_parts_and_their_order():
    keys = {cache.content_key(parts) for parts in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], ["a\udcff", "b"])}
    assert len(keys) == 5
    assert cache.content_key(["é"]) == cache.content_key(["é".encode()])


def _hold(path, seconds):
    with cache.locked(path):
        path.touch()
        time.sleep(seconds)
        path.unlink()


@pytest.mark.slow
def test_locked_waits_for_another_process(tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=_hold, args=(tmp_path / "a", 0.5))
    other.start()
    while not (tmp_path / "a").exists():
        time.sleep(0.01)
    with cache.locked(tmp_path / "a"):
        assert not (tmp_path / "a").exists()
    other.join()


def test_locked_removes_what_killed_processes_left_of_this_file(tmp_path):
    for name in (".a.x1y2", ".ab.x1y2", "a"):
        (tmp_path / name).touch()
    with cache.locked(tmp_path / "a"):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".ab.x1y2", "a", "a.lock"]


@pytest.mark.parametrize("error", [OSError(37, "No locks available"), NotImplementedError()])
def test_locked_goes_ahead_without_locks(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cache.FileLock, "acquire", fail)
    with cache.locked(tmp_path / "a"):
        cache.store(tmp_path / "a", ARRAY)
    assert cache.fetch(tmp_path / "a", np.float32) is not None
