import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from surelabel.training.checkpoints import Damaged, read_checkpoint, write_checkpoint

STATE = {"step": 3, "weights": {"a": torch.arange(6.0)}, "history": [{"accuracy": 0.5, "purity": None}]}


def test_checkpoint_can_be_read_back_and_by_torch(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, STATE)
    for stored in (read_checkpoint(path), torch.load(path, weights_only=True)):
        assert torch.equal(stored["weights"]["a"], STATE["weights"]["a"])
        assert (stored["step"], stored["history"]) == (3, STATE["history"])


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "checkpoint.pt"
    write_checkpoint(path, STATE)
    return path.read_bytes()


@given(st.data())
def test_read_checkpoint_detects_any_changed_byte(content, tmp_path_factory, data):
    place = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("changed") / "checkpoint.pt"
    path.write_bytes(content[:place] + bytes([content[place] ^ other]) + content[place + 1 :])
    with pytest.raises(Damaged, match="its checksum is wrong"):
        read_checkpoint(path)


@given(st.data())
def test_read_checkpoint_detects_any_missing_end(content, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "checkpoint.pt"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(Damaged):
        read_checkpoint(path)


def test_read_checkpoint_runs_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"step": Trap()})
    with pytest.raises(Damaged, match="is not a checkpoint"):
        read_checkpoint(path)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(Damaged, match="cannot be read"):
        read_checkpoint(tmp_path / "absent.pt")
