import contextlib
import os
import pickle
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.data.benchmarks.safe_pickle import load_dict
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import python2_pickle

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5)).astype(np.uint8)
PLAIN = {b"data": PIXELS, b"labels": [3, 1, 2], b"names": [b"a.png", b"b.png", b"c.png"], b"label": b"batch 1"}


def same(loaded, expected):
    assert loaded.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(loaded[key], value)


def test_python2_pickle_helper_is_readable_by_python():
    same(pickle.loads(python2_pickle(PLAIN), encoding="bytes"), PLAIN)


@pytest.mark.parametrize("protocol", ["python 2", 3, 4])
def test_load_dict_reads_plain_data(protocol):
    content = python2_pickle(PLAIN) if protocol == "python 2" else pickle.dumps(PLAIN, protocol)
    same(load_dict(content, "batch"), {key.decode(): value for key, value in PLAIN.items()})


@pytest.mark.parametrize("order", ["C", "F"])
def test_load_dict_reads_arrays_of_either_order(order):
    loaded = load_dict(pickle.dumps({"a": np.asarray(PIXELS, order=order)}, 3), "batch")["a"]
    assert loaded.dtype == np.uint8
    np.testing.assert_array_equal(loaded, PIXELS)


class Runs:
    """Pickles to a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_load_dict_never_runs_a_command(tmp_path):
    marker = tmp_path / "ran"
    calls = [
        Runs(os.system, f"touch {marker}"),
        Runs(subprocess.check_call, ["touch", str(marker)]),
        Runs(eval, f"open({str(marker)!r}, 'w')"),
        Runs(exec, f"open({str(marker)!r}, 'w')"),
        Runs(open, str(marker), "w"),
        Runs(getattr, "text", "upper"),
    ]
    for call in calls:
        for protocol in range(5):
            for value in (call, {"data": call}, {"labels": [call]}):
                with pytest.raises(UserError, match="it asks to run"):
                    load_dict(pickle.dumps(value, protocol), "batch")
    assert not marker.exists()
    pickle.loads(pickle.dumps(calls[0]))
    assert marker.exists(), "an ordinary unpickler would have run it"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # A command by each other way of calling: INST, OBJ, and a name put together at run time.
        (b"(S'touch x'\nios\nsystem\n.", "it asks to run os.system"),
        (b"(cos\nsystem\nS'touch x'\no.", "it asks to run os.system"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x07touch x\x85R.", "it asks to run posix.system"),
        # A part of an allowed name.
        (b"cnumpy\ndtype.__class__\n.", r"it asks to run numpy.dtype.__class__"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", r"it asks to run numpy.dtype.__init__"),
        # A codec, an array without a state, and attempts to redefine the allowed names.
        (b"c_codecs\nencode\n(Vx\nVrot13\ntR.", "it asks to run _codecs.encode"),
        (b"}S'a'\ncnumpy.core.multiarray\n_reconstruct\n(tRs.", "not official"),
        (b"}S'a'\ncnumpy\ndtype\n(S'u1'\ntRs.", "instead of plain data"),
        (b"cnumpy\ndtype\n}S'a'\nI1\nsb.", "not official"),
        (b"cnumpy\nndarray\n}S'a'\nI1\nsb.", "not official"),
        # Room for four billion objects, a persistent object, an extension.
        (b"\x80\x02}r\xff\xff\xff\xff.", "memo number 4294967295"),
        (b"}p4294967295\n.", "memo number 4294967295"),
        (b"Pname\n.", "not official"),
        (b"\x80\x02\x82\x01.", "not official"),
    ],
)
def test_load_dict_rejects_hostile_opcodes(content, message):
    with pytest.raises(UserError, match=message):
        load_dict(content, "batch")


def forged(dtype=b"u1", shape=(2, 3), content=b"123456"):
    """An array's pickle with any type, shape and bytes."""
    array = python2_pickle({b"a": PIXELS})
    numbers = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in shape) + b"t"
    start, rest = array.split(b"(J\x03\x00\x00\x00J\x05\x00\x00\x00t")
    head, tail = rest.split(b"U\x0f", 1)
    head = head.replace(b"U\x02u1", b"U" + bytes([len(dtype)]) + dtype)
    return start + numbers + head + b"U" + bytes([len(content)]) + content + tail[15:]


def test_load_dict_reads_a_handmade_array():
    np.testing.assert_array_equal(load_dict(forged(), "x")["a"], np.frombuffer(b"123456", np.uint8).reshape(2, 3))


@pytest.mark.parametrize(
    ("forgery", "message"),
    [
        ({"shape": (2, 4)}, "x .* is corrupt"),
        ({"shape": (-2, -3)}, "x .* is corrupt"),
        ({"shape": (2**31 - 1,) * 4}, "x .* is corrupt"),
        ({"dtype": b"O8", "content": b"\1" * 48}, "not uint8"),
        ({"dtype": b"V8", "content": b"\1" * 48}, "not uint8"),
        ({"dtype": b"S1"}, "not uint8"),
    ],
)
def test_load_dict_rejects_a_forged_array(forgery, message):
    with pytest.raises(UserError, match=message):
        load_dict(forged(**forgery), "x")


@pytest.mark.parametrize("value", [[1, 2], "text", {"a": [[1]]}, {"a": {"b": 1}}, {1: 2}, {"a": (1, 2)}, {"a": {1}}])
def test_load_dict_rejects_other_values(value):
    with pytest.raises(UserError, match="batch"):
        load_dict(pickle.dumps(value, 2), "batch")


@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True))
def test_load_dict_rejects_a_truncated_pickle(share):
    content = python2_pickle(PLAIN)
    with pytest.raises(UserError, match="batch"):
        load_dict(content[: int(share * len(content))], "batch")


@settings(max_examples=300)
@given(st.integers(0, len(python2_pickle(PLAIN)) - 1), st.integers(0, 255))
def test_load_dict_survives_a_changed_byte(place, value):
    content = bytearray(python2_pickle(PLAIN))
    content[place] = value
    with contextlib.suppress(UserError):
        loaded = load_dict(bytes(content), "batch")
        assert all(isinstance(item, np.ndarray | list | bytes | str | int | float | None) for item in loaded.values())
