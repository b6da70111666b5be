"""How large an image file may be: a small one may unpack to any size, and one with holes read as gigabytes."""

import os

from surelabel.utils.errors import UserError

PIXELS, BYTES = "SURELABEL_IMAGE_MEGAPIXELS", "SURELABEL_IMAGE_MEGABYTES"
DEFAULTS = {PIXELS: 64, BYTES: 256}


def most_pixels() -> int:
    """Pixels of an image."""
    return _limit(PIXELS)


def most_bytes() -> int:
    """Bytes of a file."""
    return _limit(BYTES)


def check_size(size: int) -> None:
    """Raise a `ValueError` for a file of so many bytes, which is best done before it is read."""
    if size == 0:
        raise ValueError("the file is empty")
    if size > most_bytes():
        raise ValueError(f"{size:,} bytes are more than {most_bytes():,}: ${BYTES} sets the limit")


def check_pixels(width: int, height: int) -> None:
    if width * height > most_pixels():
        raise ValueError(f"{width} × {height} pixels are more than {most_pixels():,}: ${PIXELS} sets the limit")


def _limit(name: str) -> int:
    written = os.environ.get(name) or str(DEFAULTS[name])
    if not written.isdecimal() or not 0 < int(written) < 2**20:
        raise UserError(f"${name} is {written!r}: give a whole number, such as {DEFAULTS[name]}")
    return int(written) * 2**20
