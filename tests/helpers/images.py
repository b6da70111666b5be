"""Small images cut from a photograph, as Pillow images, bytes and folders of files."""

import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

PHOTO = Image.fromarray(load_sample_image("flower.jpg"))


def picture(seed, size=(12, 10), mode="RGB"):
    """A crop of a photograph, another one for each seed; size is (width, height)."""
    x, y = np.random.default_rng(seed).integers(0, 300, 2)
    return PHOTO.crop((x, y, x + size[0], y + size[1])).convert(mode)


def encoded(seed, size=(12, 10), kind="PNG"):
    """The bytes of `picture` as a file of this kind."""
    file = io.BytesIO()
    picture(seed, size).save(file, kind)
    return file.getvalue()


def png(size=(6, 4), mode="RGB"):
    """The bytes of an image of one colour."""
    file = io.BytesIO()
    Image.new(mode, size, 100).save(file, "PNG")
    return file.getvalue()


def write_files(root, files):
    """Write {path: image or bytes}."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content.save(path)
