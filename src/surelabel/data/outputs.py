"""Folders that surelabel has written, which are no data wherever they lie."""

import os
from pathlib import Path

from surelabel.config.settings import CONFIG
from surelabel.data.images.formats import SUFFIXES
from surelabel.utils.cache import is_cache

OF_A_RUN = (CONFIG, "task.json")  # from its first moment


def is_output(folder: Path) -> bool:
    """Whether this is a run folder or a cache, of surelabel or marked as one by another program."""
    return is_cache(folder) or all((folder / name).is_file() for name in OF_A_RUN)


def holds_outputs_only(folder: Path) -> bool:
    """Whether this is such a folder, or holds some, such as `runs`, and no image beside them."""
    found = False
    for place, inner, files in os.walk(folder):
        if is_output(Path(place)):
            found = True
            inner.clear()
        elif any(Path(file).suffix.lower() in SUFFIXES for file in files):
            return False
    return found
