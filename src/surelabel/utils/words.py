"""Words for people: lists in messages, and what is shown or compared of a text."""

import re
from collections.abc import Sequence


def some(words: Sequence[str], most: int = 20) -> str:
    """The words with commas between; of more than `most`, those and an ellipsis."""
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")


def shortened(text: str, most: int) -> str:
    """The beginning of a text in one line of at most so many characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def words_alone(text: str) -> str:
    """The words of a text in lower case, without punctuation: what copies of it share."""
    return " ".join(re.findall(r"\w+", text.casefold()))
