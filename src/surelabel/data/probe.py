"""Look at some images to choose a recipe. Imports no torch."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from surelabel.config.encoders import DEFAULT, missing
from surelabel.data.images.formats import SUFFIXES, visible
from surelabel.data.outputs import holds_outputs_only
from surelabel.utils.errors import UserError

TEXT_SUFFIXES = frozenset({".txt"})
COUNTED = 10_000  # files, to tell texts from pictures
PROBED = 50
PHOTOGRAPH_SIDE = 64
# Pretrained features also beat a small network on smaller or grey images (docs/pictures.md). But
# each image takes 150 kB of cache and 10 ms of a core, too much of a surprise for a large folder.
SMALL_SIDE = 28
MOST_SMALL = 20_000
DEEPEST = 8


def suit_encoder(shape: tuple[int, ...], count: int) -> bool:
    """Whether to use the pretrained encoder for so many images of this shape (channels, height, width)."""
    channels, height, width = shape
    side = min(height, width)
    suits = (side >= PHOTOGRAPH_SIDE and channels == 3) or (side >= SMALL_SIDE and count <= MOST_SMALL)
    return suits and not missing(DEFAULT)


def looks_photographic(folder: str | Path) -> bool:
    """Whether to use the pretrained encoder: it is installed, and the images suit it.

    They do if most of a sample are photographs, or if most are at least 28 pixels a side and the
    folder has at most 20,000.
    """
    if missing(DEFAULT):
        return False
    from surelabel.data.images.decode import opened

    photographs = small = images = 0
    for path in islice(_files(Path(folder)), PROBED):
        try:
            with opened(path) as image:
                images += 1
                photographs += min(image.size) >= PHOTOGRAPH_SIDE and image.mode in ("RGB", "RGBA", "P", "CMYK")
                small += min(image.size) >= SMALL_SIDE
        except Exception:  # a damaged or hostile file, to be reported when all are read
            continue
    if 2 * photographs > images:
        return True
    return 2 * small > images and next(islice(_files(Path(folder)), MOST_SMALL, None), None) is None


def holds_texts(folder: str | Path) -> bool:
    """Whether a folder is one of texts; raises where it has about as many pictures.

    Texts beside pictures in the folder itself say something about these (readme.txt), and do not count.
    """
    folder = Path(folder)
    found = list(islice(_files(folder, SUFFIXES | TEXT_SUFFIXES), COUNTED))
    written = [file for file in found if file.suffix.lower() in TEXT_SUFFIXES]
    pictures = len(found) - len(written)
    texts = sum(1 for file in written if not pictures or file.parent != folder)
    if 2 * min(pictures, texts) > max(pictures, texts):
        raise UserError(
            f"{folder} holds {pictures:,} pictures and {texts:,} texts: one network learns from either. Put them into "
            "folders of their own"
        )
    return texts > pictures


def _files(folder: Path, suffixes: frozenset[str] = SUFFIXES) -> Iterator[Path]:
    """Files with these suffixes, sorted within each folder; a link in circles ends at `DEEPEST`."""
    for place, inner, files in os.walk(folder, followlinks=True):
        inner[:] = sorted(name for name in inner if visible(name) and not holds_outputs_only(Path(place, name)))
        if len(Path(place).parts) - len(folder.parts) >= DEEPEST:
            inner.clear()
        yield from (
            Path(place, file) for file in sorted(filter(visible, files)) if Path(file).suffix.lower() in suffixes
        )
