import numpy as np
import pytest
import torch

from surelabel.data.views.geometry import GEOMETRIC, move
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, operate, to_pillow


def both(name, images, level, sign):
    """The images moved by us and by Pillow."""
    count = len(images)
    operation = torch.full((count,), GEOMETRIC.index(name))
    ours = move(torch.from_numpy(images), operation, torch.full((count,), level), torch.full((count,), sign < 0))
    return ours.numpy(), np.stack([from_pillow(operate(name, to_pillow(image), level, sign)) for image in images])


@pytest.mark.parametrize(
    "shape", [(3, 32, 32), (1, 28, 28), (3, 24, 41), (1, 2, 5), (3, 50, 50), (3, 96, 96), (1, 224, 224)]
)
@pytest.mark.parametrize("name", GEOMETRIC)
def test_move_equals_pillow_at_every_level(name, shape):
    images = crops(5, *shape)
    for level in range(1, 10):
        for sign in (1, -1):
            ours, pillows = both(name, images, level, sign)
            np.testing.assert_array_equal(ours, pillows, err_msg=f"level {sign * level}")


def test_move_applies_one_operation_per_image():
    images = crops(5, 3, 32, 32)
    ours = move(torch.from_numpy(images), torch.arange(5), torch.arange(5) + 3, torch.arange(5) % 2 == 1)
    for number, name in enumerate(GEOMETRIC):
        expected = operate(name, to_pillow(images[number]), number + 3, -1 if number % 2 else 1)
        np.testing.assert_array_equal(ours[number].numpy(), from_pillow(expected))
