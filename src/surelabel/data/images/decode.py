"""Decode an image of any mode that Pillow reads into 8-bit pixels of a given size."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from surelabel.data.images.formats import FORMATS
from surelabel.data.images.limits import check_pixels, check_size, most_pixels
from surelabel.data.images.scaling import PLAIN, Scaling

SIDEWAYS = (5, 6, 7, 8)  # the EXIF orientations that swap height and width


@dataclass(frozen=True)
class Header:
    """What is known about an image without decoding its pixels."""

    height: int
    width: int
    grey: bool


def read_header(file: Path | IO[bytes]) -> Header:
    """Read size and mode. Any exception means that the file is not usable as an image."""
    with opened(file) as image:
        width, height = image.size
        # Pillow rotates TIFFs itself; a PNG may store its orientation after the pixels.
        if image.format in ("JPEG", "MPO", "WEBP") and image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS:
            width, height = height, width
        return Header(height, width, grey=image.mode in ("1", "L", "LA") or image.mode.startswith("I"))


def decode(file: Path | IO[bytes], height: int, width: int, grey: bool, scaling: Scaling = PLAIN) -> NDArray[np.uint8]:
    """The pixels [C, H, W], upright, without transparency, scaled to height × width; C = 1 if `grey`, else 3."""
    mode = "L" if grey else "RGB"
    with opened(file) as image:
        ImageOps.exif_transpose(image, in_place=True)
        plain = image if image.mode == mode else _eight_bits(image).convert(mode)
        pixels = np.asarray(scaling.scaled(plain, width, height))
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


@contextmanager
def opened(file: Path | IO[bytes]) -> Iterator[Image.Image]:
    """An image whose pixels are not decoded yet. Raises nearly anything for a file that is too large, or is none."""
    check_size(file.stat().st_size if isinstance(file, Path) else file.seek(0, SEEK_END))
    if Image.MAX_IMAGE_PIXELS is not None:  # Pillow's own limit must not be below ours
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, most_pixels())
    with Image.open(file, formats=FORMATS) as image:
        check_pixels(*image.size)
        yield image


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16 bits to 8; Pillow's conversion would clip at 255 instead."""
    if image.mode == "F":
        raise ValueError("floating-point pixels have no fixed range: store such images in an .npy file")
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65_535:
        raise ValueError("pixels have more than 16 bits: store such images in an .npy file")
    return Image.fromarray(((values * 255 + 32_767) // 65_535).astype(np.uint8))
