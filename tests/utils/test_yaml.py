import os
import string
import threading

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from surelabel.utils.bounded import Malformed
from surelabel.utils.yaml import read_yaml

# Nine levels of nine references each: 9 ** 9 texts.
BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(string.printable) | st.floats(allow_nan=False)
)


@given(
    tree=st.dictionaries(st.text(string.ascii_letters, min_size=1), SCALARS | st.dictionaries(st.text("ab"), SCALARS))
)
def test_read_yaml_reads_what_yaml_writes(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("yaml") / "file.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    assert read_yaml(path) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01", "2024-01-01"), ("2024-13-45", "2024-13-45"), ("1:30", "1:30"), ("1:30.5", "1:30.5"),
        ("9" * 5000, "9" * 5000), ("0x10", "0x10"), ("12", 12), ("-1.5e+3", -1500.0), ("null", None), ("yes", True),
    ],
)  # fmt: skip
def test_read_yaml_makes_plain_values_only(text, expected, tmp_path):
    (tmp_path / "file.yaml").write_text(f"a: {text}\n")
    assert read_yaml(tmp_path / "file.yaml") == {"a": expected}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "an alias"), ("a: &a\n  b: *a\n", "an alias"), ("a: &a {b: 1}\nc: {<<: *a}\n", "an alias"),
        ("[" * 30_000, "deep"), ("a: " + "{a: " * 3000, "deep"), ("a: !!binary abc\n", "a tag"),
        ("a: !!python/name:os.system\n", "a tag"), ("a: !!bool x\n", "a tag"), ("? [a]\n: 1\n", "unhashable"),
        ("a: '\\0'\n\0", "special characters"),
    ],
)  # fmt: skip
def test_read_yaml_refuses(text, words, tmp_path):
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(yaml.YAMLError, match=words):
        read_yaml(tmp_path / "file.yaml")


def test_read_yaml_refuses_a_large_file_and_reads_a_pipe(tmp_path):
    (tmp_path / "file.yaml").write_text("#" * 10**6)
    with pytest.raises(Malformed, match="bytes"):
        read_yaml(tmp_path / "file.yaml")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a: 1\n",))
    writer.start()
    assert read_yaml(pipe) == {"a": 1}
    writer.join()
