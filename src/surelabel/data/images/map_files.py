"""Run a function on many image files in threads, and collect results and reasons for failures."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TypeVar

from PIL import UnidentifiedImageError

from surelabel.data.images.formats import SUFFIXES
from surelabel.utils import cpu as cores
from surelabel.utils.words import printable

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
    """Call `job(file, path)` for each file: results by file, and reasons by printable file name.

    Files that failed for a reason that may pass (a permission, the network, too little memory) are
    added to `retryable`. Threads help because Pillow releases the GIL while it decodes.
    """
    retryable = [] if retryable is None else retryable
    results: dict[str, Result] = {}
    skipped: dict[str, str] = {}
    # In groups: handing a small image to a thread takes longer than decoding it.
    groups = [files[start : start + group] for start in range(0, len(files), group)]
    with ThreadPoolExecutor(cores.available_cores()) as pool:
        for done in pool.map(lambda group: [_one(job, folder, file, retryable) for file in group], groups):
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
        # Pillow's own OSErrors, for damaged files, have no errno.
        passing = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None)
        if passing and not isinstance(error, FileNotFoundError):
            retryable.append(file)
        return file, None, str(error) or type(error).__name__
