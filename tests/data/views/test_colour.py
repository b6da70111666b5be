import numpy as np
import pytest
import torch

from surelabel.data.views.randaugment import COLOUR
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, operate, to_pillow

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 50, 41), (1, 2, 5), (3, 128, 128)]


def assert_equals_pillow(name, images):
    """At every level, pixel for pixel."""
    levels = np.arange(len(images)) % 9 + 1
    views = COLOUR[name](torch.from_numpy(images), torch.from_numpy(levels)).numpy()
    pairs = zip(images, levels.tolist(), strict=True)
    expected = np.stack([from_pillow(operate(name, to_pillow(image), level, 1)) for image, level in pairs])
    np.testing.assert_array_equal(views, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", COLOUR)
def test_colour_operations_equal_pillow_on_photographs(name, shape):
    assert_equals_pillow(name, crops(90, *shape))


@pytest.mark.parametrize("name", COLOUR)
def test_colour_operations_equal_pillow_on_few_colours(name):
    """One colour, two colours, two adjacent colours, all colours: special cases of histograms."""
    random = np.random.default_rng(0)
    for lowest, beyond in [(0, 1), (77, 78), (255, 256), (0, 2), (120, 122), (254, 256), (0, 256)]:
        assert_equals_pillow(name, random.integers(lowest, beyond, (18, 3, 20, 20)).astype(np.uint8))
    rare = np.full((9, 3, 32, 32), 200, dtype=np.uint8)
    rare[:, :, 0, :7] = 10
    assert_equals_pillow(name, rare)


def test_colour_does_not_change_one_channel():
    images = torch.from_numpy(crops(9, 1, 8, 8))
    assert torch.equal(COLOUR["Color"](images, torch.arange(1, 10)), images)
