"""What stands beside a field of a config: which values it can have, and when it is read at all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from surelabel.config.run import RunConfig


@dataclass(frozen=True)
class Check:
    """A number is refused unless it `holds`; `rule` says what it must be."""

    holds: Callable[[float], bool]
    rule: str


@dataclass(frozen=True)
class ReadIf:
    """The setting is read only by runs for which this holds; elsewhere, setting it has no effect."""

    holds: Callable[["RunConfig"], bool]


def AtLeast(least: float, why: str = "") -> Check:
    return Check(lambda value: value >= least, f"must be at least {least:g}{why and f': {why}'}")


POSITIVE = Check(lambda value: isfinite(value) and value > 0, "must be above zero")
NOT_NEGATIVE = Check(lambda value: isfinite(value) and value >= 0, "must not be negative")
SHARE = Check(lambda value: 0 <= value <= 1, "must lie between 0 and 1")

PositiveInt = Annotated[int, POSITIVE]
PositiveFloat = Annotated[float, POSITIVE]
NotNegativeInt = Annotated[int, NOT_NEGATIVE]
NotNegative = Annotated[float, NOT_NEGATIVE]
Share = Annotated[float, SHARE]


def fields(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Every setting by its dotted name, with its type and with what stands beside it."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(hint):
            yield from fields(hint, f"{prefix}{name}.")
        elif get_origin(hint) is Annotated:
            plain, *beside = get_args(hint)
            # An inner type may carry constraints of its own: PositiveInt | None.
            yield prefix + name, _plain(plain), (*beside, *_inner(plain))
        else:
            yield prefix + name, _plain(hint), tuple(_inner(hint))


def _plain(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    parts = get_args(hint)
    if any(get_origin(part) is Annotated for part in parts):
        made = _plain(parts[0])
        for part in parts[1:]:
            made = made | _plain(part)
        return made
    return hint


def _inner(hint: Any) -> list[Any]:
    return [beside for part in get_args(hint) if get_origin(part) is Annotated for beside in get_args(part)[1:]]
