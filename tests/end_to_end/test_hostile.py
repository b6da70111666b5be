"""Whatever a file holds, its reader ends with data or with a message to the user, and nothing is run."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.config.settings import read_run, read_yaml
from surelabel.data.benchmarks.archive import read_files
from surelabel.data.benchmarks.mnist import _read as read_idx
from surelabel.data.benchmarks.safe_pickle import load_dict
from surelabel.data.images.labels_csv import read_labels_csv
from surelabel.training.checkpoints import read_checkpoint
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import idx, tar_gz

NAMES = {"a.png": "cat", "b.png": "dog"}
YAML = "steps: 7\nseed: 1\nbatch:\n  labelled: 4\nlabels: 10%\n"
JSON = (
    '{"shape": [1, 2, 2], "classes": ["a"], "dtype": "uint8", "offset": [0], "scale": [1], "labelled": [1], "data": ""}'
)


def with_file(content: bytes, read):
    """The reader's answer, or None where it told the user what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.tar.gz")
        path.write_bytes(content)
        before = sorted(Path(folder).rglob("*"))
        try:
            return read(path)
        except UserError:
            return None
        finally:
            assert sorted(Path(folder).rglob("*")) == before


def of_folder(read):
    def opened(path: Path):
        (path.parent / "task.json").write_bytes(path.read_bytes())
        (path.parent / "split.json").write_bytes(path.read_bytes())
        try:
            return read(RunFolder(path.parent))
        finally:
            (path.parent / "task.json").unlink()
            (path.parent / "split.json").unlink()

    return opened


READERS = {
    "yaml": (read_yaml, YAML.encode()),
    "run": (read_run, YAML.encode()),
    "idx": (lambda path: read_idx(path, 1), idx(np.arange(5, dtype=np.uint8))),
    "tar": (lambda path: read_files(path, ["one.bin"]), tar_gz({"one.bin": b"12345"})),
    "csv": (lambda path: read_labels_csv(path, set(NAMES)), b"file,label\na.png,cat\nb.png,dog\n"),
    "pickle": (lambda path: load_dict(path.read_bytes(), str(path)), b"(dp0\nS'a'\np1\nI1\ns."),
    "checkpoint": (read_checkpoint, b"PK\x03\x04" + bytes(40)),
    "task": (of_folder(RunFolder.task), JSON.encode()),
    "split": (of_folder(RunFolder.labelled), JSON.encode()),
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(data=st.data())
def test_readers_survive_any_bytes(name, data):
    read, _ = READERS[name]
    with_file(data.draw(st.binary(max_size=200)), read)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(data=st.data())
def test_readers_survive_a_changed_file(name, data):
    read, good = READERS[name]
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 8)))
    with_file(good[:start] + data.draw(st.binary(max_size=8)) + good[end:], read)


@pytest.mark.parametrize("name", ["yaml", "run", "csv", "task", "split"])
@settings(max_examples=60)
@given(text=st.text(alphabet=st.sampled_from('abc019:-[]{}",\n\t!&*#|>%@`=é\u202e'), max_size=60))
def test_readers_survive_meaningful_signs(name, text):
    read, _ = READERS[name]
    with_file(text.encode(), read)


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_readers_survive_any_compressed_file(content):
    with_file(gzip.compress(content), lambda path: read_files(path, ["one.bin"]))


@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['touch sprung']", "a: !!python/name:os.system", "&a [*a]"]
)
def test_read_yaml_makes_no_objects(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(UserError):
        read_yaml(tmp_path / "run.yaml")
    assert not (tmp_path / "sprung").exists()
