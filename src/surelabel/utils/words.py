"""Lists in messages."""

from collections.abc import Sequence


def some(words: Sequence[str], most: int = 20) -> str:
    """The words with commas between; of more than `most`, those and an ellipsis."""
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")
