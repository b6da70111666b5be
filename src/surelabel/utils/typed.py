"""Values read from a file in the form that a type asks for: a dataclass, or lists, tuples and dictionaries of types."""

import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from reprlib import repr as short
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from surelabel.utils.bounded import Malformed


def typed(value: Any, kind: Any, where: str = "it") -> Any:
    """The value as a `kind`; raises `Malformed`, which says `where` it is none. An object's further keys are left out.

    Numbers must be finite, and texts such as can be written.
    """
    if kind in PLAIN:
        words, holds = PLAIN[kind]
        if not holds(value):
            raise Malformed(f"{where} is {short(value)}, not {words}")
        return float(value) if kind is float else value
    if is_dataclass(kind):
        return _dataclass(value, kind, where)
    origin, inside = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and origin is None:
        _check(value, kind, f"a {kind.__name__}", where)
        return value
    if origin is dict:
        _check(value, dict, "an object", where)
        return {typed(key, inside[0], where): typed(one, inside[1], f"{where}.{key}") for key, one in value.items()}
    if origin in (list, tuple):
        _check(value, list, "a list", where)
        return origin(typed(one, inside[0], f"{where}[{n}]") for n, one in enumerate(value))
    return _union(value, inside, where)


def _dataclass(value: Any, kind: Any, where: str) -> Any:
    """One made from an object; what it objects to itself, by a `ValueError`, is malformed too."""
    _check(value, dict, "an object", where)
    hints, given = get_type_hints(kind), {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = typed(value[field.name], hints[field.name], field.name)
        elif field.default is MISSING:
            raise Malformed(f"{where} has no {field.name}")
    try:
        return kind(**given)
    except ValueError as error:
        raise Malformed(str(error)) from error


def _union(value: Any, kinds: tuple[Any, ...], where: str) -> Any:
    """The value as the first of these kinds that it is."""
    for kind in kinds[:-1]:
        try:
            return typed(value, kind, where)
        except Malformed:
            continue
    return typed(value, kinds[-1], where)


def _check(value: Any, kind: type, words: str, where: str) -> None:
    if not isinstance(value, kind):
        raise Malformed(f"{where} is {short(value)}, not {words}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    """Whether it is a text without half a surrogate pair, which no file nor terminal takes."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    NoneType: ("null", lambda value: value is None),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a finite number", _is_number),
    str: ("a text", _is_text),
    Any: ("anything", lambda value: True),
}
