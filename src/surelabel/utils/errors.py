"""The one exception that means "the user can mend this"; hints for a mistyped word and for a missing package."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """A mistake in what was asked for or in the data given.

    The message says what is wrong, where, and what to do about it. The command line prints it without a traceback
    and exits with code 2.
    """


class Busy(UserError):
    """Another process does this at the moment."""


class FolderExists(UserError):
    """A folder that a new run was to be written to is not empty; `begun`: it holds a run."""

    def __init__(self, path: Path, begun: bool) -> None:
        super().__init__(f"{path} exists already: choose another folder, or remove it")
        self.path, self.begun = path, begun


def words_of(error: Exception) -> str:
    """What an error says; of one that is no `UserError` also what it is."""
    return str(error) if isinstance(error, UserError) else repr(error)


def suggestion(word: str, words: Iterable[str]) -> str:
    """' Did you mean X?', or, where nothing is near, the list of the right words."""
    words = list(words)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else f" It can be {', '.join(words)}."


@contextmanager
def optional_import(name: str, what: str) -> Iterator[None]:
    """Within this block, a package that is not installed is told by the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"{what} needs the package {error.name}: pip install 'surelabel[{name}]'") from error
