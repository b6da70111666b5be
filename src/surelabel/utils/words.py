"""Words for people: lists in messages, names that somebody else chose, what is shown or compared of a text."""

import re
import unicodedata
from collections.abc import Sequence

SHAPING = "\u200c\u200d"  # which some scripts, and emoji, cannot be written without


def some(words: Sequence[str], most: int = 20) -> str:
    """The words with commas between; of more than `most`, those and an ellipsis."""
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")


def printable(text: str) -> str:
    """A text that a terminal shows and does not obey: what controls it, is invisible or no UTF-8 is written as \\x1b.

    Line ends stay.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(sign: str) -> str:
    if sign == "\n" or sign in SHAPING or not is_invisible(sign):
        return sign
    return sign.encode("ascii", "backslashreplace").decode() if ord(sign) > 127 else f"\\x{ord(sign):02x}"


def is_invisible(sign: str) -> bool:
    """Whether a character shows nothing: controls, formats (marks of direction, of width zero), halves of a pair."""
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def shortened(text: str, most: int) -> str:
    """The beginning of a text in one line of at most so many characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def words_alone(text: str) -> str:
    """The words of a text in lower case, without punctuation: what copies of it share."""
    return " ".join(re.findall(r"\w+", text.casefold()))
