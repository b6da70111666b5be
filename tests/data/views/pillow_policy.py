"""The strong view with Pillow, image by image: oracle of the tests, baseline of the benchmark."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from surelabel.data.views.randaugment import OPERATIONS


def to_pillow(image: NDArray[np.uint8]) -> Image.Image:
    """[C, H, W] -> mode L or RGB."""
    return Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))


def from_pillow(image: Image.Image) -> NDArray[np.uint8]:
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def operate(name: str, image: Image.Image, level: int, sign: int) -> Image.Image:  # noqa: PLR0911, PLR0912
    """One operation of the policy at a level in 1..9."""
    factor, share = 0.05 + 0.9 * level / 10, sign * 0.3 * level / 10
    matrix: tuple[float, ...]
    match name:
        case "Identity":
            return image
        case "AutoContrast":
            return ImageOps.autocontrast(image)
        case "Equalize":
            return ImageOps.equalize(image)
        case "Posterize":
            return ImageOps.posterize(image, 4 + int(0.4 * level))
        case "Solarize":
            return ImageOps.solarize(image, 256 - int(25.6 * level))
        case "Brightness":
            return ImageEnhance.Brightness(image).enhance(factor)
        case "Color":
            return image if image.mode == "L" else ImageEnhance.Color(image).enhance(factor)
        case "Contrast":
            return ImageEnhance.Contrast(image).enhance(factor)
        case "Sharpness":
            return ImageEnhance.Sharpness(image).enhance(factor)
        case "Rotate":
            return image.rotate(sign * 3 * level)
        case "ShearX":
            matrix = (1, share, 0, 0, 1, 0)
        case "ShearY":
            matrix = (1, 0, 0, share, 1, 0)
        case "TranslateX":
            matrix = (1, 0, int(share * image.width), 0, 1, 0)
        case "TranslateY":
            matrix = (1, 0, 0, 0, 1, int(share * image.height))
        case _:
            raise ValueError(name)
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def rand_augment(image: Image.Image, u: Sequence[float], probability: float = 0.5) -> Image.Image:
    for first in range(0, len(u), 4):
        which, level, whether, sign = u[first : first + 4]
        if whether < probability:
            name = OPERATIONS[int(which * len(OPERATIONS))]
            image = operate(name, image, 1 + int(level * 9), -1 if sign < 0.5 else 1)
    return image


def cutout(image: Image.Image, u: Sequence[float], size: int) -> Image.Image:
    left, top = (int(max(0.0, draw * side - size / 2)) for draw, side in zip(u, image.size, strict=True))
    right, bottom = int(min(image.width, left + size)), int(min(image.height, top + size))
    image = image.copy()
    ImageDraw.Draw(image).rectangle((left, top, right, bottom), 127 if image.mode == "L" else (127, 127, 127))
    return image


def flip_crop(image: Image.Image, u: Sequence[float], padding: int) -> Image.Image:
    array = np.asarray(ImageOps.mirror(image) if u[0] < 0.5 else image)
    top, left = (int(draw * (2 * padding + 1)) for draw in u[1:])
    rows = _reflected(image.height, padding)[top : top + image.height]
    columns = _reflected(image.width, padding)[left : left + image.width]
    return Image.fromarray(array[rows][:, columns])


@lru_cache
def _reflected(side: int, padding: int) -> NDArray[np.int64]:
    return np.pad(np.arange(side), padding, mode="reflect")


def strong(image: NDArray[np.uint8], u: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The whole strong view of one image [C, H, W] from its 13 draws."""
    side = min(image.shape[1:])
    draws = u.tolist()
    view = flip_crop(to_pillow(image), draws[:3], side // 8)
    return from_pillow(cutout(rand_augment(view, draws[3:11]), draws[11:], side // 2))
