"""Errors that the user can fix; hints for misspelt words and missing packages."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from surelabel.utils.words import some


class UserError(Exception):
    """A mistake in the options or in the data.

    The message says what is wrong, where, and what to do. The command line prints it without a
    traceback and exits with code 2.
    """


class Busy(UserError):
    """Another process is doing this."""


class FolderExists(UserError):
    """A folder that a new run was to be written to is not empty; `begun`: it holds a run."""

    def __init__(self, path: Path, begun: bool) -> None:
        super().__init__(f"{path} exists already: choose another folder, or remove it")
        self.path, self.begun = path, begun


def words_of(error: Exception) -> str:
    """The message of a `UserError`, the repr of any other error."""
    return str(error) if isinstance(error, UserError) else repr(error)


def suggestion(word: str, words: Iterable[str]) -> str:
    """' Did you mean X?', or a list of the words if none is similar."""
    words = list(words)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else f" It can be {some(words, 40)}."


@contextmanager
def optional_import(name: str, what: str) -> Iterator[None]:
    """If a package is missing, raise an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"{what} needs the package {error.name}: pip install 'surelabel[{name}]'") from error
