"""Which files are images, and which are ignored."""

# A fixed list, since some of Pillow's formats run external programs (PostScript).
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})


def visible(name: str) -> bool:
    """Whether a file or folder of this name is not hidden."""
    return not name.startswith(".") and name != "__MACOSX"
