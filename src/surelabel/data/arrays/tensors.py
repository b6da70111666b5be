"""Map the tensors of a .safetensors file. Imports no torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from surelabel.utils.errors import UserError

TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}


def mapped_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors by name, memory-mapped."""
    with safe_open(path, "np"):  # checks the header, and that it fits the file
        pass
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        described = json.loads(file.read(length))
    described.pop("__metadata__", None)
    found: dict[str, NDArray[Any]] = {}
    for name, entry in described.items():
        if entry["dtype"] not in TYPES:
            raise UserError(f"the tensor {name} is of type {entry['dtype']}: save it as F16 or F32")
        kind, place = np.dtype(TYPES[entry["dtype"]]), 8 + length + entry["data_offsets"][0]
        shape = tuple(entry["shape"])
        empty = 0 in shape
        found[name] = np.empty(shape, kind) if empty else np.memmap(path, kind, "r", place, shape)
    return found


def the_rows(tensors: dict[str, NDArray[Any]]) -> str:
    """The name of the tensor that holds the embeddings: `embeddings`, else the only one of rows of floats."""
    if "embeddings" in tensors:
        return "embeddings"
    rows = [name for name, tensor in tensors.items() if tensor.ndim == 2 and tensor.dtype.kind == "f"]
    if len(rows) != 1:
        raise UserError(
            f"{'several tensors hold' if rows else 'no tensor holds'} rows of floats: name the one with the embeddings "
            f"'embeddings'; the file has {', '.join(tensors) or 'none'}"
        )
    return rows[0]


def encode_texts(texts: NDArray[np.str_]) -> NDArray[np.uint8]:
    """Texts [N] as bytes of UTF-8 [N, width], zeros after each: safetensors holds numbers only."""
    encoded = np.char.encode(texts, "utf-8")
    return np.frombuffer(encoded.tobytes(), np.uint8).reshape(len(texts), encoded.itemsize)


def decode_texts(written: NDArray[np.uint8]) -> NDArray[np.str_]:
    """The inverse of `encode_texts`."""
    if written.ndim != 2 or written.dtype != np.uint8:
        raise UserError(f"ids must be bytes of UTF-8 [N, width], not {written.dtype} {written.shape}")
    texts = np.ascontiguousarray(written).view(f"S{written.shape[1]}")[:, 0]
    return np.char.decode(texts, "utf-8")
