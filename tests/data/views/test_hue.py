import colorsys
from itertools import permutations

import numpy as np
import pytest
import torch

from surelabel.data.views.hue import shift_hue
from tests.data.views import pillow_paws
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, to_pillow

SHARES = np.linspace(-0.5, 0.5, 61, dtype=np.float32)


def shifted(images, shares):
    return shift_hue(torch.from_numpy(images), torch.from_numpy(shares)).numpy()


def every_colour(step):
    """One image [1, 3, n^2, n] of all colours whose values are multiples of the step."""
    values = np.arange(0, 256, step, dtype=np.uint8)
    return np.stack(np.meshgrid(values, values, values, indexing="ij")).reshape(1, 3, -1, len(values))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 1, 1)])
def test_shift_hue_equals_pillow_on_photographs(shape):
    images = crops(len(SHARES), *shape)
    pairs = zip(images, SHARES.tolist(), strict=True)
    expected = [from_pillow(pillow_paws.shift_hue(to_pillow(image), share)) for image, share in pairs]
    np.testing.assert_array_equal(shifted(images, SHARES), np.stack(expected))


@pytest.mark.parametrize("share", [0.0, 0.1, -0.37])
def test_shift_hue_equals_pillow_over_the_colour_cube(share):
    images = every_colour(3)
    expected = from_pillow(pillow_paws.shift_hue(to_pillow(images[0]), share))
    np.testing.assert_array_equal(shifted(images, np.array([share]))[0], expected)


def test_hue_table_equals_pillow():
    """With the largest value at 255, these are all entries of the table that images can reach."""
    level = np.arange(256, dtype=np.uint8)
    low, middle = (plane.ravel() for plane in np.meshgrid(level, level))
    low, middle = np.minimum(low, middle), np.maximum(low, middle)
    high = np.full_like(low, 255)
    for colours in permutations((high, middle, low)):
        image = np.stack(colours)[:, None]
        expected = from_pillow(pillow_paws.shift_hue(to_pillow(image), 0.25))
        np.testing.assert_array_equal(shifted(image[None], np.array([0.25]))[0], expected)


@pytest.mark.parametrize("share", [0.0, 0.2, -0.2])
def test_shift_hue_is_close_to_exact_arithmetic(share):
    """Three times 6 grey levels, a 255th of a turn, and 1.5 more.

    Hue and shift are truncated, and bytes wrap around at 256, not 255; a 255th of saturation is
    one level, rounding half of one.
    """
    images = every_colour(17)
    red, green, blue = images[0].reshape(3, -1) / 255
    turned = [
        colorsys.hsv_to_rgb((h + share) % 1, s, v)
        for h, s, v in (colorsys.rgb_to_hsv(*colour) for colour in zip(red, green, blue, strict=True))
    ]
    off = np.abs(shifted(images, np.array([share]))[0].reshape(3, -1) - 255 * np.array(turned).T)
    assert off.max() <= 6 * 3 + 1.5
    assert off.mean() < 3


def test_shift_hue_does_not_change_one_channel():
    images = crops(4, 1, 8, 8)
    np.testing.assert_array_equal(shifted(images, np.full(4, 0.3)), images)


def test_shift_hue_by_a_third_permutes_primaries():
    primaries = np.eye(3, dtype=np.uint8)[:, :, None, None] * 255
    np.testing.assert_array_equal(shifted(primaries, np.full(3, 1 / 3 + 1e-6)), np.roll(primaries, 1, axis=1))
