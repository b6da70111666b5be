"""Checkpoint files: tensors, numbers, texts, lists and dictionaries, as safetensors with a checksum."""

import json
import mmap
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from surelabel.utils.bounded import as_text, briefly, from_json, opened
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.typed import typed

# Follows the tensors.
MARK = b"\nsurelabel blake2b "
DIGEST = 32  # bytes; twice as many characters in hexadecimal
REST = "rest"  # the tensor of bytes with all but tensors, as JSON


class Damaged(UserError):
    """A checkpoint that cannot be used."""


@dataclass(frozen=True)
class Begun:
    """What every state has; the rest is for the run that it is loaded into to judge."""

    step: int


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the whole state or nothing."""
    tensors: dict[str, Tensor] = {}
    rest = json.dumps(_packed(state, tensors)).encode()
    content = save_tensors(tensors | {REST: torch.frombuffer(bytearray(rest), dtype=torch.uint8)})
    with atomic_write(path, "wb") as file:
        file.write(content)
        file.write(MARK + _digest(content))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state, on the CPU; `Damaged` if the file is unusable. Nothing in it can run code."""
    try:
        # Mapped, so that a file of any size needs no memory until its checksum is right.
        with opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            end = len(content) - len(MARK) - 2 * DIGEST
            with memoryview(content) as view, view[: max(end, 0)] as checked:
                digest = _digest(checked)
            if end < 0 or content[end:] != MARK + digest:
                raise Damaged(f"{path} is damaged: its checksum is wrong")
            tensors = load_tensors(content[:end])
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, SafetensorError) as error:  # ValueError: nothing to map
        raise Damaged(f"{path} is not a checkpoint ({briefly(error)})") from error
    try:
        rest = as_text(tensors.pop(REST).numpy().tobytes())
        state = _unpacked(from_json(rest, most_nested=len(rest)), tensors)  # as many as a long history has
        typed(state, Begun)
        return dict(state)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise Damaged(f"{path} is not a checkpoint ({briefly(error)})") from error


def _packed(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value as JSON takes it, with a number for each tensor, which goes to `tensors`.

    The order of a tensor's axes in memory is kept, since optimizers go through weights and momentum side by side.
    """
    if isinstance(value, Tensor):
        order = sorted(range(value.ndim), key=value.stride().__getitem__, reverse=True)
        # A copy: safetensors wants no two tensors in one memory.
        tensors[str(len(tensors))] = value.detach().cpu().permute(order).clone(memory_format=torch.contiguous_format)
        return {"tensor": str(len(tensors) - 1), "order": order}
    if isinstance(value, dict):
        return {"items": [[key, _packed(inner, tensors)] for key, inner in value.items()]}
    return [_packed(inner, tensors) for inner in value] if isinstance(value, list | tuple) else value


def _unpacked(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `_packed`."""
    if isinstance(value, list):
        return [_unpacked(inner, tensors) for inner in value]
    if not isinstance(value, dict):
        return value
    if "tensor" not in value:
        return {key: _unpacked(inner, tensors) for key, inner in value["items"]}
    order = value["order"]
    return tensors[value["tensor"]].permute([order.index(axis) for axis in range(len(order))])


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST).hexdigest().encode()
