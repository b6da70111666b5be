"""What is written as a class: which spellings are one name, and which words mean that there is none."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import normalize

from surelabel.data.tables.columns import MISSING
from surelabel.utils.errors import UserError
from surelabel.utils.words import SHAPING, is_invisible, some

# In small or capital letters.
UNLABELLED_WORDS = frozenset({"", "?", "unlabelled", "unlabeled", "unknown"})
EXPECTED = frozenset({"", "unlabelled", "unlabeled"})  # which nobody means otherwise
DOUBTFUL = frozenset(MISSING) - UNLABELLED_WORDS
ASKED_ABOUT = frozenset(word.lower() for word in DOUBTFUL) | {"missing"}


@dataclass(frozen=True)
class Names:
    """The class that each spelling means, "" for none, and what should be said about it."""

    of: dict[str, str]
    notes: tuple[str, ...]

    @property
    def classes(self) -> list[str]:
        return sorted({*self.of.values()} - {""})


def class_name(written: str) -> str:
    """The class that is written so, "" for none.

    Without what cannot be seen: spaces around it and more than one between words, invisible characters, and whether an
    accent is a character of its own.
    """
    seen = "".join(sign for sign in written if sign in SHAPING or sign.isspace() or not is_invisible(sign))
    plain = seen.translate(dict.fromkeys(map(ord, SHAPING)))
    name = " ".join(normalize("NFC", plain if plain.isascii() else seen).split())
    return "" if name.lower() in UNLABELLED_WORDS else name


def class_names(written: Iterable[str]) -> Names:
    """The classes of all samples, each as it is written. Raises a `UserError` for what may be a class or mean none."""
    counts = Counter(written)
    of = {spelling: class_name(spelling) for spelling in counts}
    doubtful = sorted(DOUBTFUL & {*of.values()})
    if doubtful:
        raise UserError(
            f"{doubtful[0]} may be a class or mean unlabelled: write unlabelled, or nothing, where the class is not "
            "known, or rename the class"
        )
    return Names(of, (*_unlabelled(counts, of), *_merged(of), *_alike({*of.values()})))


def _unlabelled(counts: Counter[str], of: dict[str, str]) -> list[str]:
    words = Counter[str]()
    for spelling, count in counts.items():
        if not of[spelling] and spelling.strip().lower() not in EXPECTED:
            words[spelling] += count
    return [f"{word!r} is taken as unlabelled ({count:,})" for word, count in sorted(words.items())]


def _merged(of: dict[str, str]) -> list[str]:
    """Words about spellings that look the same, or nearly."""
    spellings: dict[str, list[str]] = {}
    for spelling, name in sorted(of.items()):
        if name:
            spellings.setdefault(name, []).append(ascii(spelling))
    return [
        f"{some(ones, 5)} are taken for one class, {name!r}: they differ only in what cannot be seen"
        for name, ones in spellings.items()
        if len(ones) > 1
    ]


def _alike(names: set[str]) -> list[str]:
    by_case: dict[str, list[str]] = {}
    for name in sorted(names):
        by_case.setdefault(name.casefold(), []).append(name)
    return [
        f"Is {name!r} a class? If it means unlabelled, write that" for name in sorted(names) if name in ASKED_ABOUT
    ] + [
        f"Are {some([repr(name) for name in ones])} different classes? They are taken for such"
        for ones in by_case.values()
        if len(ones) > 1
    ]
