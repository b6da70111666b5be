from dataclasses import dataclass
from typing import Any

import pytest

from surelabel.utils.bounded import Malformed
from surelabel.utils.typed import typed


@dataclass(frozen=True)
class Point:
    name: str
    sides: tuple[float, ...]
    note: str | None = None

    def __post_init__(self):
        if len(self.sides) > 2:
            raise ValueError("too many sides")


def test_typed_makes_what_the_type_says():
    assert typed({"name": "a", "sides": [1, 2.5], "other": {}}, Point) == Point("a", (1.0, 2.5))
    assert typed({"name": "a", "sides": [], "note": "x"}, Point).note == "x"
    assert typed({"a": [1, 2]}, dict[str, list[int]]) == {"a": [1, 2]}
    assert [type(one) for one in typed([1, 1.5, None], list[int | float | None])] == [int, float, type(None)]
    assert typed({"a": {}}, dict[str, Any]) == {"a": {}}


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ([], Point, "not an object"),
        ({"sides": []}, Point, "has no name"),
        ({"name": 3, "sides": []}, Point, "name is 3, not a text"),
        ({"name": "\ud800", "sides": []}, Point, "name is .*, not a text"),
        ({"name": "a", "sides": [1, "x"]}, Point, r"sides\[1\] is 'x', not a finite number"),
        ({"name": "a", "sides": 1}, Point, "sides is 1, not a list"),
        ({"name": "a", "sides": [1, 2, 3]}, Point, "too many sides"),
        (float("inf"), float, "not a finite number"),
        (True, int, "not a whole number"),
        (1.5, int, "not a whole number"),
        (1, bool, "not true or false"),
        ({"a": None}, dict[str, int | str], r"it\.a is None, not a text"),
        ("x" * 10**6, int, "^.{0,100}$"),
    ],
)
def test_typed_says_what_is_wrong_and_where(value, kind, words):
    with pytest.raises(Malformed, match=words):
        typed(value, kind)
