"""The size and channels that all images of a data set are converted to."""

from collections import Counter

from surelabel.data.images.decode import Header

MIXED_SIZE = 32
LARGEST = 256  # photographs at full size take 36 MB each, and far too long to train on


def common_form(headers: list[Header], size: int | None) -> Header:
    """The common height, width and channels of these images; see `common_size`."""
    if not headers:
        return Header(MIXED_SIZE, MIXED_SIZE, grey=True)
    (height, width), alike = Counter((header.height, header.width) for header in headers).most_common(1)[0]
    return Header(*common_size(height, width, alike, len(headers), size), grey=all(header.grey for header in headers))


def common_size(height: int, width: int, alike: int, count: int, asked: int | None) -> tuple[int, int]:
    """The size for `count` images, of which `alike` have the most frequent size, height × width.

    The square asked for, else the most frequent size if at least half have it, else 32 × 32.
    Unless asked for, a longer side than 256 is scaled down to 256, with the aspect ratio kept.
    """
    if asked is not None:
        return asked, asked
    if 2 * alike < count:
        return MIXED_SIZE, MIXED_SIZE
    shrink = min(1.0, LARGEST / max(height, width))
    return max(1, round(shrink * height)), max(1, round(shrink * width))
