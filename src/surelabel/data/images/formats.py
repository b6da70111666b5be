"""Which files are images, and which are passed over."""

# Named, so that no file is ever handed to a format that runs a program of its own, as PostScript does.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})


def visible(name: str) -> bool:
    """Whether a file or a folder of this name is looked at."""
    return not name.startswith(".") and name != "__MACOSX"
