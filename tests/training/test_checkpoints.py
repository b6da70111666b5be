import io
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save as save_tensors

from surelabel.training.checkpoints import MARK, REST, Damaged, _digest, read_checkpoint, write_checkpoint

STATE = {
    "step": 3, "weights": {"a": torch.arange(6.0)}, "history": [{"accuracy": 0.1 + 0.2, "purity": None}],
    "optimizers": [{0: {"momentum_buffer": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}, 1: {}}],
}  # fmt: skip


def test_checkpoint_can_be_read_back(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, STATE)
    stored = read_checkpoint(path)
    (before,), (after,) = ([held[0]["momentum_buffer"] for held in state["optimizers"]] for state in (STATE, stored))
    assert torch.equal(before, after)
    assert before.stride() == after.stride()
    assert torch.equal(stored["weights"]["a"], STATE["weights"]["a"])
    assert (stored["step"], stored["history"], stored["optimizers"][0][1]) == (3, STATE["history"], {})


def test_checkpoint_may_hold_a_tensor_twice(tmp_path):
    shared = torch.zeros(3)
    write_checkpoint(tmp_path / "checkpoint.pt", {"step": 1, "a": shared, "b": shared[1:]})
    assert read_checkpoint(tmp_path / "checkpoint.pt")["b"].shape == (2,)


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


def sealed(path, content):
    """Write a file whose checksum is right."""
    path.write_bytes(content + MARK + _digest(content))


def of_torch(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def safe(rest, **tensors):
    """A safetensors file with this JSON."""
    return save_tensors(tensors | {REST: torch.frombuffer(bytearray(rest), dtype=torch.uint8)})


def lying(shape):
    """A safetensors file with a header that promises more than there is."""
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * math.prod(shape)]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


class Trap:
    def __reduce__(self):
        return (open, ("sprung", "w"))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"PK", of_torch({"step": 3}), of_torch({"step": Trap()}), lying([2**40]), lying([2**62, 4]),
        (2**62).to_bytes(8, "little") + b"{}", safe(b"[]"), safe(b"3"), safe(b'{"items": 3}'),
        safe(b'{"items": [[[], 1]]}'), safe(b'{"items": []}'), safe(b'{"items": [["step", "3"]]}'),
        safe(b'{"tensor": "0", "order": [0]}'), safe(b'{"tensor": "0", "order": [1, 0]}', **{"0": torch.zeros(3)}),
        safe(b'{"tensor": "0", "order": ["x"]}', **{"0": torch.zeros(3)}), safe(b"[" * 10**6), safe(b"9" * 5000),
        safe(b"\xff"), save_tensors({"a": torch.zeros(2)}), save_tensors({REST: torch.zeros(2)}),
    ],
)  # fmt: skip
def test_read_checkpoint_refuses_content_with_a_right_checksum(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    sealed(tmp_path / "checkpoint.pt", content)
    with pytest.raises(Damaged, match=r"checkpoint\.pt") as raised:
        read_checkpoint(tmp_path / "checkpoint.pt")
    assert "weights_only" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "sprung").exists()


def test_read_checkpoint_names_a_missing_file(tmp_path):
    with pytest.raises(Damaged, match="cannot be read"):
        read_checkpoint(tmp_path / "absent.pt")
