"""The one size and the channels that all pictures of a set are brought to."""

from collections import Counter

from surelabel.data.images.decode import Header

MIXED_SIZE = 32
LARGEST = 256  # a set of photographs as they come from a camera would take 36 MB a picture, and train for ever


def common_form(headers: list[Header], size: int | None) -> Header:
    """The height, width and channels that all images are brought to: see `common_size`."""
    if not headers:
        return Header(MIXED_SIZE, MIXED_SIZE, grey=True)
    (height, width), alike = Counter((header.height, header.width) for header in headers).most_common(1)[0]
    return Header(*common_size(height, width, alike, len(headers), size), grey=all(header.grey for header in headers))


def common_size(height: int, width: int, alike: int, count: int, asked: int | None) -> tuple[int, int]:
    """The one asked for, else the most frequent one if `alike` of `count` are at least half, else 32 × 32.

    Where nothing was asked for, the longer side becomes 256 at most, and the other one shrinks with it.
    """
    if asked is not None:
        return asked, asked
    if 2 * alike < count:
        return MIXED_SIZE, MIXED_SIZE
    shrink = min(1.0, LARGEST / max(height, width))
    return max(1, round(shrink * height)), max(1, round(shrink * width))
