"""Annotations of the fields of a config: which values are allowed, and which runs read them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import reduce
from math import isfinite
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from surelabel.config.run import RunConfig


@dataclass(frozen=True)
class Check:
    """A number is valid if it `holds`; `rule` says what it must be."""

    holds: Callable[[float], bool]
    rule: str


@dataclass(frozen=True)
class ReadIf:
    """The setting is read only by runs for which this holds; in others it has no effect."""

    holds: Callable[["RunConfig"], bool]


def AtLeast(least: float, why: str = "") -> Check:
    return Check(lambda value: value >= least, f"must be at least {least:g}{why and f': {why}'}")


def AtMost(most: float, why: str = "") -> Check:
    return Check(lambda value: value <= most, f"must be at most {most:g}{why and f': {why}'}")


POSITIVE = Check(lambda value: value > 0, "must be above zero")
NOT_NEGATIVE = Check(lambda value: value >= 0, "must not be negative")
FINITE = Check(isfinite, "must be a finite number")
PROPORTION = Check(lambda value: 0 <= value < 1, "must be at least 0 and below 1")
SHARE = Check(lambda value: 0 <= value <= 1, "must lie between 0 and 1")

PositiveInt = Annotated[int, POSITIVE]
PositiveFloat = Annotated[float, FINITE, POSITIVE]
NotNegativeInt = Annotated[int, NOT_NEGATIVE]
NotNegative = Annotated[float, FINITE, NOT_NEGATIVE]
Share = Annotated[float, SHARE]
Proportion = Annotated[float, PROPORTION]


def fields(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The dotted name, type and annotations of every setting."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(hint):
            yield from fields(hint, f"{prefix}{name}.")
        else:
            yield prefix + name, *_split(hint)


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type and its annotations, also those in a union such as PositiveInt | None."""
    if get_origin(hint) is Annotated:
        inner, *annotations = get_args(hint)
        plain, others = _split(inner)
        return plain, (*annotations, *others)
    if get_origin(hint) in (Union, UnionType):
        kinds, found = zip(*map(_split, get_args(hint)), strict=True)
        return reduce(or_, kinds), sum(found, ())
    return hint, ()
