"""PAWS's view with Pillow, image by image: oracle of the tests, baseline of the benchmark."""

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from tests.data.views.pillow_policy import from_pillow, to_pillow

ORDERS = tuple(permutations(range(4)))
Box = tuple[int, int, int, int]


def box(
    width: int, height: int, u: Sequence[float], scale: tuple[float, float], ratio: tuple[float, float] = (3 / 4, 4 / 3)
) -> Box:
    """Left, top, right, bottom from 22 draws: try after try, then the centre."""
    for share, shape in zip(u[:10], u[10:20], strict=True):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * share)
        aspect = math.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * shape)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = math.floor(u[21] * (width - w + 1)), math.floor(u[20] * (height - h + 1))
            return left, top, left + w, top + h
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def resized_crop(image: Image.Image, u: Sequence[float], size: int | None, scale: tuple[float, float]) -> Image.Image:
    shape = image.size if size is None else (size, size)
    return image.crop(box(*image.size, u, scale)).resize(shape, Image.Resampling.BILINEAR)


def shift_hue(image: Image.Image, share: float) -> Image.Image:
    if image.mode == "L":
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = Image.fromarray((np.asarray(hue).astype(int) + int(share * 255)).astype(np.uint8))
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def jitter(image: Image.Image, u: Sequence[float], strength: float) -> Image.Image:
    low, high = max(0.0, 1 - 0.8 * strength), 1 + 0.8 * strength
    factors = [low + (high - low) * draw for draw in u[:3]]
    for change in ORDERS[int(u[4] * 24)]:
        if change == 0:
            image = ImageEnhance.Brightness(image).enhance(factors[0])
        elif change == 1:
            image = ImageEnhance.Contrast(image).enhance(factors[1])
        elif change == 2:
            image = image if image.mode == "L" else ImageEnhance.Color(image).enhance(factors[2])
        else:
            image = shift_hue(image, 0.2 * strength * (2 * u[3] - 1))
    return image


def after_crop(image: Image.Image, u: Sequence[float]) -> Image.Image:
    """What follows the crop of a small image, from 10 draws."""
    if u[0] < 0.5:
        image = ImageOps.mirror(image)
    if u[1] < 0.8:
        image = jitter(image, u[2:7], 0.5)
    if u[7] < 0.2:
        image = ImageOps.solarize(image, 1 + math.floor(u[8] * 256))
    return ImageOps.equalize(image) if u[9] < 0.2 else image


def small(
    image: NDArray[np.uint8], u: NDArray[np.float32], size: int | None, scale: tuple[float, float]
) -> NDArray[np.uint8]:
    """The whole view of one small image [C, H, W] from its 32 draws."""
    draws = u.tolist()
    return from_pillow(after_crop(resized_crop(to_pillow(image), draws[:22], size, scale), draws[22:]))
