"""Read CIFAR's pickles, plain data and arrays of bytes, without running code from them.

As the Python documentation suggests, `find_class` allows only a few names. The names that an array
needs are not mapped to NumPy's functions, which trust the types and shapes they are given, but to
classes that only record their arguments.
"""

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.errors import UserError

Value = NDArray[np.uint8] | list[Any] | str | bytes | int | float | None
SCALARS = (str, bytes, int, float, type(None))


def load_dict(content: bytes, origin: str) -> dict[str, Value]:
    """A pickled dictionary of byte arrays, scalars and lists of these; `origin` is for errors."""
    try:
        _check_memory_trap(content)
        loaded = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if type(loaded) is not dict:
            raise pickle.UnpicklingError(f"it holds a {type(loaded).__name__}, not a dictionary")
        return {_text(key): _plain(value) for key, value in loaded.items()}
    except Exception as error:  # damaged or hostile bytes make an unpickler raise nearly anything
        raise UserError(
            f"{origin} ({len(content):,} bytes) is corrupt or not official ({error}): download it again"
        ) from error


def _check_memory_trap(content: bytes) -> None:
    """Reject large memo numbers: an unpickler allocates memory up to the largest, used or not."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name.endswith("PUT") and int(str(argument)) > len(content):
            raise pickle.UnpicklingError(f"it has memo number {argument} in {len(content)} bytes")


class _Recorder:
    """Records its arguments and its state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Recorder):
    pass


class _Array(_Recorder):
    pass


ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _Type,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks to run {module_name}.{global_name}")
        return ALLOWED[module_name, global_name]


def _text(value: Any) -> str:
    return value.decode("utf-8") if type(value) is bytes else str.__str__(value)


def _plain(value: Any) -> Value:
    if type(value) is _Array:
        _, shape, kind, fortran, content = value.state
        if type(kind) is not _Type or _text(kind.arguments[0]) != "u1":
            raise pickle.UnpicklingError("it holds an array that is not uint8")
        return np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")
    if type(value) in SCALARS or (type(value) is list and all(type(item) in SCALARS for item in value)):
        plain: Value = value
        return plain
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__} instead of plain data")
