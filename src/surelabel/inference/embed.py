"""Describe pictures or texts by an encoder, once, and keep the rows in a file to learn from."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from surelabel.data.arrays.write import Embeddings, check_suffix, write_embeddings
from surelabel.data.images.map_files import Progress
from surelabel.data.part import WHOLE, Part
from surelabel.data.source import UNLABELLED, Source, Subset
from surelabel.models.encoders.base import Encoder
from surelabel.models.frozen_features import BATCH, TEXTS, check_readable, compute
from surelabel.training.build_data import sized
from surelabel.utils.cache import content_key
from surelabel.utils.errors import Busy, UserError
from surelabel.utils.files import atomic_write

CHUNK = 1024  # samples: what a kill may lose


@dataclass(frozen=True)
class Embedded:
    """What was written: so many rows, of which `before` were left by an earlier call that was killed."""

    path: Path
    count: int
    before: int


def embed(
    source: Source,
    encoder: Encoder,
    out: Path,
    half: bool = False,
    part: Part = WHOLE,
    progress: Progress | None = None,
) -> Embedded:
    """Write the features of all samples, or of a part, with their names as ids and the classes that are known.

    Rows are float32, or float16 with `half`. Until all are there, they are beside `out`, from where the same call goes
    on after a kill.
    """
    source = sized(source, encoder)
    check_readable(source, encoder)
    kind = np.dtype(np.float16 if half else np.float32)
    unit = BATCH if source.kind != "texts" else TEXTS  # whole batches: rounding depends on what is computed together
    rows, path = part.rows(len(source), unit), part.file(out)
    _check_room(path, len(rows) * encoder.dimensions * kind.itemsize)
    plan = {"key": _key(source, encoder, rows), "dtype": kind.name, "rows": len(rows), "dimensions": encoder.dimensions}
    with _spool(path, plan) as file:
        before = done = file.tell() // (encoder.dimensions * kind.itemsize)
        for start in range(done, len(rows), CHUNK):
            index = np.arange(rows.start + start, rows.start + min(start + CHUNK, len(rows)))
            file.write(_stored_as(kind, compute(Subset(source, index), encoder), source, index, encoder).tobytes())
            file.flush()
            os.fsync(file.fileno())
            if progress is not None:
                progress(start + len(index), len(rows))
        found = np.empty((0, encoder.dimensions), kind)
        if len(rows):
            found = np.memmap(Path(file.name), kind, "r", shape=(len(rows), encoder.dimensions))
        write_embeddings(path, Embeddings([found], *_texts(source, np.array(rows, dtype=np.int64))))
    for left in _spool_files(path):
        left.unlink(missing_ok=True)
    return Embedded(path, len(rows), before)


def check_output(out: Path) -> None:
    """Raise where embeddings cannot be written, before anything long."""
    check_suffix(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    if not os.access(out.parent, os.W_OK):
        raise UserError(f"cannot write {out}: its folder is read-only")


def _stored_as(
    kind: np.dtype[Any], features: NDArray[np.float32], source: Source, index: NDArray[np.int64], encoder: Encoder
) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        rows = features.astype(kind)
    if not (finite := np.isfinite(rows).all(axis=1)).all():
        name = source.names(index[[int(finite.argmin())]])[0]
        raise UserError(f"features of {name} by {encoder.name} are beyond float16: write float32, without --float16")
    return rows


def _texts(source: Source, index: NDArray[np.int64]) -> tuple[NDArray[np.str_] | None, NDArray[np.str_] | None]:
    """The names of samples, where they are more than their numbers, and their classes, where any is known."""
    named = isinstance(source.names(np.arange(1))[0], str)
    ids = np.array(source.names(index), dtype=np.str_) if named else None
    if (source.labels == UNLABELLED).all():
        return ids, None
    return ids, np.array([*source.classes, str(UNLABELLED)])[source.labels[index]]


def _key(source: Source, encoder: Encoder, rows: range) -> str:
    """A hash of what the rows are made of: the names of all samples, some of the samples, and the encoder."""
    some = np.unique(np.linspace(0, len(source) - 1, 100).astype(np.int64))
    texts = source.texts(some)
    shown = [source.pictures(some).tobytes()] if texts is None else texts
    names = map(str, source.names(np.arange(len(source))))
    return content_key((encoder.name, encoder.fingerprint, repr(rows), str(source.shape), *names, *shown))


def _check_room(path: Path, size: int) -> None:
    there = sum(left.stat().st_size for left in _spool_files(path) if left.exists())
    needed, free = 2 * size - there, shutil.disk_usage(path.parent).free
    if needed > free:
        raise UserError(
            f"{path} and the rows beside it take {needed / 1e9:,.1f} GB while they are written, and there are "
            f"{free / 1e9:,.1f} GB: make room, write parts elsewhere, or ask for float16"
        )


def _spool_files(path: Path) -> tuple[Path, Path, Path]:
    """The rows so far, what they are, and the lock of both."""
    rows, plan, lock = (path.with_name(f".{path.name}.{suffix}") for suffix in ("rows", "json", "lock"))
    return rows, plan, lock


@contextmanager
def _spool(path: Path, plan: dict[str, Any]) -> Iterator[IO[bytes]]:
    """The file of rows so far, open at the end of its last whole chunk; empty if it is of another plan."""
    rows, described, locked = _spool_files(path)
    lock = FileLock(locked)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise Busy(f"another process is writing {path}: wait for it, or stop it") from error
    try:
        if not (rows.exists() and described.exists() and described.read_text() == json.dumps(plan)):
            rows.unlink(missing_ok=True)
            with atomic_write(described) as file:
                json.dump(plan, file)
        size = CHUNK * plan["dimensions"] * np.dtype(plan["dtype"]).itemsize
        with rows.open("ab") as spool:
            spool.truncate(spool.tell() // size * size)
            spool.seek(0, os.SEEK_END)
            yield spool
    except OSError as error:
        raise UserError(f"cannot write {rows}: {error.strerror or error}") from error
    finally:
        lock.release()
