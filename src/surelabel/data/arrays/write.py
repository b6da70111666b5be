"""Write embeddings with their ids and labels: .npy, .npz, .parquet or .safetensors. The same rows give the same bytes.

Rows come as several arrays that follow one another, which may be mapped from files: none is copied whole.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from surelabel.data.arrays.parquet import find_columns, read_whole
from surelabel.data.arrays.tensors import decode_texts, encode_texts, mapped_tensors
from surelabel.data.tables.blocks import count_rows
from surelabel.utils.errors import UserError, optional_import
from surelabel.utils.files import atomic_write

SUFFIXES = (".npy", ".npz", ".parquet", ".safetensors")
BLOCK = 2**14  # rows written at a time, and those of a row group
TENSOR_TYPES = {"float16": "F16", "float32": "F32", "uint8": "U8"}


@dataclass(frozen=True)
class Embeddings:
    """Rows [N, d] as arrays that follow one another, with ids [N] and labels [N], texts, where there are some.

    The label "-1" is that of an unlabelled row.
    """

    parts: Sequence[NDArray[Any]]
    ids: NDArray[np.str_] | None = None
    labels: NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.parts[0].shape[1]

    def blocks(self) -> Iterator[NDArray[Any]]:
        """The rows, so many at a time, whatever the parts."""
        held = self.parts[0][:0]
        for part in self.parts:
            for start in range(0, len(part), BLOCK):
                held = np.concatenate([held, part[start : start + BLOCK]])
                if len(held) >= BLOCK:
                    yield held[:BLOCK]
                    held = held[BLOCK:]
        if len(held):
            yield held


def check_suffix(out: Path) -> None:
    """Raise unless embeddings can be written to a file of this name."""
    if out.suffix not in SUFFIXES:
        raise UserError(f"{out}: embeddings are written to files {', '.join(SUFFIXES)}: choose one")
    if out.suffix == ".parquet":
        with optional_import("tables", f"the table {out}"):
            import pyarrow.parquet  # noqa: F401


def write_embeddings(out: Path, made: Embeddings) -> None:
    """Write them in the form that the file's suffix names; beside .npy, NAME.ids.npy and NAME.labels.npy."""
    writers = {".npz": _write_npz, ".parquet": _write_parquet, ".safetensors": _write_safetensors}
    if out.suffix != ".npy":
        writers[out.suffix](out, made)
        return
    for name, texts in _texts(made).items():
        with atomic_write(out.with_suffix(f".{name}.npy"), "wb") as file:
            np.save(file, texts)
    with atomic_write(out, "wb") as file:  # last, so that it is never there without its ids
        _write_rows(file, made)


def read_embeddings(path: Path) -> Embeddings:
    """What `write_embeddings` has written; of .npy and .safetensors files the rows are mapped."""
    if path.suffix == ".npy":
        beside = {name: path.with_suffix(f".{name}.npy") for name in ("ids", "labels")}
        texts = {name: np.load(file, allow_pickle=False) for name, file in beside.items() if file.exists()}
        return Embeddings([np.load(path, "r", allow_pickle=False)], **texts)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as found:
            return Embeddings([found["embeddings"]], found.get("ids"), found.get("labels"))
    if path.suffix == ".safetensors":
        tensors = mapped_tensors(path)
        texts = {name: decode_texts(tensors[name]) for name in ("ids", "labels") if name in tensors}
        return Embeddings([tensors["embeddings"]], **texts)
    if not count_rows(path):
        return Embeddings([np.empty((0, 1), np.float32)])
    rows, ids, labels = read_whole(path, find_columns(path))
    known = None if labels is None else np.where(labels == "", "-1", labels).astype(np.str_)
    return Embeddings([rows], None if ids is None else ids.astype(np.str_), known)


def _texts(made: Embeddings) -> dict[str, NDArray[np.str_]]:
    found = {"ids": made.ids, "labels": made.labels}
    return {name: texts for name, texts in found.items() if texts is not None}


def _write_rows(file: IO[bytes], made: Embeddings) -> None:
    """The rows as a .npy file."""
    described = npy.dtype_to_descr(made.parts[0].dtype)
    npy.write_array_header_1_0(file, {"descr": described, "fortran_order": False, "shape": made.shape})
    for block in made.blocks():
        file.write(block.tobytes())


def _write_npz(out: Path, made: Embeddings) -> None:
    with atomic_write(out, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        # A member's date is that of no day, as np.savez has it.
        with archive.open(zipfile.ZipInfo("embeddings.npy"), "w", force_zip64=True) as member:
            _write_rows(member, made)
        for name, texts in _texts(made).items():
            content = io.BytesIO()
            np.save(content, texts)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


def _write_safetensors(out: Path, made: Embeddings) -> None:
    texts = {name: encode_texts(values) for name, values in _texts(made).items()}
    kinds = {"embeddings": (made.parts[0].dtype, made.shape)}
    kinds |= {name: (values.dtype, values.shape) for name, values in texts.items()}
    described, place = {}, 0
    for name, (kind, shape) in kinds.items():
        end = place + kind.itemsize * shape[0] * shape[1]
        described[name] = {"dtype": TENSOR_TYPES[kind.name], "shape": list(shape), "data_offsets": [place, end]}
        place = end
    header = json.dumps(described).encode()
    header += b" " * (-len(header) % 8)  # so that the data are aligned
    with atomic_write(out, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for block in made.blocks():
            file.write(block.tobytes())
        for values in texts.values():
            file.write(values.tobytes())


def _write_parquet(out: Path, made: Embeddings) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    width, kind = made.shape[1], pa.from_numpy_dtype(made.parts[0].dtype)
    columns = {"ids": "id", "labels": "label"}
    fields = [pa.field(columns[name], pa.string()) for name in _texts(made)]
    schema = pa.schema([*fields, pa.field("embedding", pa.list_(kind, width))])
    with atomic_write(out, "wb") as file, ParquetWriter(file, schema) as writer:
        start = 0
        for block in made.blocks():
            texts = {name: values[start : start + len(block)].tolist() for name, values in _texts(made).items()}
            if "labels" in texts:  # in a table an empty cell means unlabelled
                texts["labels"] = [None if text == "-1" else text for text in texts["labels"]]
            cells = [pa.array(some, pa.string()) for some in texts.values()]
            rows = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), width)
            writer.write_table(pa.Table.from_arrays([*cells, rows], schema=schema), BLOCK)
            start += len(block)
