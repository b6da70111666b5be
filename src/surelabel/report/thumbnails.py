"""Images as small PNG files inside the page."""

import io
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from surelabel.data.source import Images

SIDE = 64


@dataclass(frozen=True)
class Thumbnail:
    """An image as a data: URL."""

    address: str
    small: bool  # to be enlarged pixel by pixel, not blurred


def thumbnails(images: Images) -> Iterator[Thumbnail | None]:
    """Thumbnails of images [n, C, H, W], at most `SIDE` pixels a side; None for samples that are not images.

    Floats are scaled: the smallest of all is black, the largest white.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not len(images):
        return iter([None] * len(images))
    return map(_thumbnail, np.moveaxis(_as_bytes(images), 1, -1))


def _as_bytes(images: Images) -> NDArray[np.uint8]:
    if images.dtype == np.uint8:
        return images.astype(np.uint8, copy=False)
    low, high = float(images.min()), float(images.max())
    scaled = (images.astype(np.float64) - low) * (255 / (high - low) if high > low else 0)
    return scaled.round().astype(np.uint8)


def _thumbnail(image: NDArray[np.uint8]) -> Thumbnail:
    """image [H, W, C]"""
    made = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    small = max(made.size) <= SIDE
    made.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    made.save(file, "PNG", optimize=True)
    return Thumbnail("data:image/png;base64," + b64encode(file.getvalue()).decode(), small)
