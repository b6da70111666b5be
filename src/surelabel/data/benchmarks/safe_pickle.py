"""Pickles of plain data, read without running anything that they ask for.

An unpickler looks up by name whatever a pickle wants called. Here the few names that an array needs are answered by
stand-ins written below, and any other name is refused. NumPy's own functions are not among the answers, as they are
not made to doubt the types, shapes and flags that they are given.
"""

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError

Value = NDArray[Any] | list[Any] | str | bytes | int | float | None
SCALARS = (str, bytes, int, float, type(None))
TYPES = frozenset(kind + size for kind in "iu" for size in "1248") | {"f4", "f8", "b1"}


def load_dict(content: bytes, origin: str) -> dict[str, Value]:
    """A pickled dictionary whose values are arrays, scalars, texts, or lists of the latter two; `origin` names it."""
    try:
        _check_memory_trap(content)
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if type(loaded) is not dict:
            raise pickle.UnpicklingError(f"it holds a {type(loaded).__name__}, not a dictionary")
        return {_text(key): _plain(value) for key, value in loaded.items()}
    except Exception as error:  # damaged or hostile bytes make an unpickler raise nearly anything
        raise UserError(
            f"{origin} ({len(content):,} bytes) is refused: {error}. It is corrupt or not official: fetch it again"
        ) from error


def _check_memory_trap(content: bytes) -> None:
    """An unpickler makes room for as many remembered objects as the largest number given to one, true or not."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name.endswith("PUT") and int(str(argument)) > len(content):
            raise pickle.UnpicklingError(f"it counts {argument} objects in {len(content)} bytes")


class _Type:
    """Stands in for numpy.dtype: its code and byte order are noted, and looked up in `TYPES`."""

    def __init__(self, code: str | bytes, align: object = False, copy: object = False) -> None:
        self.code = _text(code)
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def resolve(self) -> np.dtype[Any]:
        if self.code not in TYPES or self.order not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError(f"it holds an array of type {self.order}{self.code}")
        return np.dtype(self.order + self.code)


class _Array:
    """Stands in for NumPy's `_reconstruct`: the array is made from its bytes, with their number checked."""

    def __init__(self, kind: object, shape: object, code: object) -> None:
        self.value: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, described, fortran, content = state
        if type(described) is not _Type or type(content) is not bytes or not all(type(n) is int for n in shape):
            raise pickle.UnpicklingError("it holds an array of an unknown form")
        dtype = described.resolve()
        if any(n < 0 for n in shape) or len(content) != math.prod(shape) * dtype.itemsize:
            size = math.prod(shape) * dtype.itemsize
            raise pickle.UnpicklingError(f"an array of shape {shape} needs {size:,} bytes, but has {len(content):,}")
        self.value = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


class _Bytes:
    """Stands in for `_codecs.encode`, by which Python 3 writes bytes in Python 2's pickles."""

    def __new__(cls, text: str, codec: str) -> bytes:  # type: ignore[misc]  # the bytes are meant, not an instance
        if codec != "latin1":
            raise pickle.UnpicklingError(f"it asks for the codec {codec}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it tries to alter a function")


STAND_INS: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _Bytes,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it asks to run {module_name}.{global_name}")
        return STAND_INS[module_name, global_name]


def _text(value: Any) -> str:
    return value.decode("utf-8") if type(value) is bytes else str.__str__(value)


def _plain(value: Any) -> Value:
    if type(value) is _Array and value.value is not None:
        return value.value
    if type(value) in SCALARS or (type(value) is list and all(type(item) in SCALARS for item in value)):
        plain: Value = value
        return plain
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__} where plain data belongs")
