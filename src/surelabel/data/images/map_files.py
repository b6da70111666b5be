"""Doing something with each of many image files, in threads, and saying why where it cannot be done."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

from PIL import UnidentifiedImageError

from surelabel.data.images.formats import SUFFIXES
from surelabel.utils import cpu as cores

GROUP = 100

Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # files done, files in all


def map_files(
    job: Callable[[str, Path], Result],
    folder: Path,
    files: Sequence[str],
    progress: Progress | None = None,
    retryable: list[str] | None = None,
    group: int = GROUP,
) -> tuple[dict[str, Result], dict[str, str]]:
    """The result of each file, and the reason for each that had none. Pillow frees the interpreter while it decodes.

    The files whose reason may pass (a permission, the network, too little memory) are added to `passing`.
    """
    noted = [] if retryable is None else retryable
    results: dict[str, Result] = {}
    skipped: dict[str, str] = {}
    # By the hundred: handing over one small image to a thread takes longer than decoding it.
    groups = [files[start : start + group] for start in range(0, len(files), group)]
    with ThreadPoolExecutor(cores.available_cores()) as pool:
        for done in pool.map(lambda some: [_one(job, folder, file, noted) for file in some], groups):
            for file, result, reason in done:
                if reason is not None:
                    skipped[printable(file)] = reason
                elif result is not None:
                    results[file] = result
            if progress is not None:
                progress(len(results) + len(skipped), len(files))
    return results, skipped


def _one(
    job: Callable[[str, Path], Result], folder: Path, file: str, retryable: list[str]
) -> tuple[str, Result | None, str | None]:
    try:
        file.encode()
        if PurePosixPath(file).suffix.lower() not in SUFFIXES:
            return file, None, "not named as an image"
        return file, job(file, folder / file), None
    except UnicodeEncodeError:
        return file, None, "the name of the file is not UTF-8"
    except UnidentifiedImageError:
        return file, None, "not an image of a known format"
    except Exception as error:  # damaged or hostile pixels make Pillow raise nearly anything
        # The OSErrors that Pillow raises of damaged files have no number.
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            retryable.append(file)
        return file, None, str(error) or type(error).__name__


def printable(file: str) -> str:
    """The name of a file that may not be UTF-8."""
    return file.encode("utf-8", "backslashreplace").decode()
