import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.utils.bounded import DEEPEST, Malformed, from_json, read_bytes, read_json, read_json_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_from_json_reads_what_json_writes(value):
    assert from_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "deep"),
        ('{"a":' * 10**5, "deep"),
        ("[" * 10**5 + '"' * 10**5, "deep"),
        ("[]," * (2**20 + 1), "lists and objects"),
        ("9" * 5000, "64 bits"),
        (str(2**63), "64 bits"),
        ('{"a": 1', "not valid JSON"),
        ("", "not valid JSON"),
        ('"\\', "not valid JSON"),
    ],
)
def test_from_json_refuses(text, words):
    with pytest.raises(Malformed, match=words):
        from_json(text)


def test_from_json_takes_brackets_in_texts_for_texts():
    assert from_json(json.dumps(["[" * 100, '\\"[' * 100])) == ["[" * 100, '\\"[' * 100]


def test_read_bytes_has_a_bound(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    assert read_bytes(path, 10) == bytes(10)
    with pytest.raises(Malformed, match="more than 9 bytes"):
        read_bytes(path, 9)
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(Malformed, match="bytes"):
        read_bytes(path)


def test_read_bytes_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Malformed, match="not a regular file"):
        read_bytes(tmp_path / "pipe")


def test_read_json_names_what_is_not_utf_8(tmp_path):
    (tmp_path / "file").write_bytes(b"[1]\n\xff")
    with pytest.raises(Malformed, match="not UTF-8"):
        read_json(tmp_path / "file")
    (tmp_path / "file").write_text("[1]\n{}\n")
    assert read_json_lines(tmp_path / "file") == [[1], {}]
    (tmp_path / "file").write_text("0\n" * (2**20 + 1))
    with pytest.raises(Malformed, match="lines"):
        read_json_lines(tmp_path / "file")
