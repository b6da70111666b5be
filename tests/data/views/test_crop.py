import itertools

import numpy as np
import pytest
import torch

from surelabel.data.views import FlipCrop
from surelabel.utils.errors import UserError
from tests.data.views.photographs import crops


def plain(image, flipped, top, left, padding):
    """[C, H, W] flipped, padded by numpy, and cut."""
    _, height, width = image.shape
    padded = np.pad(image[:, :, ::-1] if flipped else image, ((0, 0), (padding,) * 2, (padding,) * 2), mode="reflect")
    return padded[:, top : top + height, left : left + width]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40)])
def test_flip_crop_equals_numpy_reflect_padding(shape, dtype):
    padding = min(shape[1:]) // 8
    shifts = 2 * padding + 1
    choices = list(itertools.product((True, False), range(shifts), range(shifts)))
    images = crops(len(choices), *shape).astype(dtype)
    u = torch.tensor([[0.25 if flip else 0.75, (i + 0.5) / shifts, (j + 0.5) / shifts] for flip, i, j in choices])
    views = FlipCrop()(torch.from_numpy(images), u)
    expected = np.stack([plain(image, *choice, padding) for image, choice in zip(images, choices, strict=True)])
    np.testing.assert_array_equal(views.numpy(), expected)


def test_flip_crop_without_flip_and_with_padding():
    images = crops(1, 3, 16, 16)
    u = torch.tensor([[0.0, 0.0, 0.0]])
    view = FlipCrop(padding=15, flip=False)(torch.from_numpy(images), u)
    np.testing.assert_array_equal(view[0].numpy(), plain(images[0], False, 0, 0, 15))


def test_flip_crop_rejects_too_much_padding():
    with pytest.raises(UserError, match="padding of 8 does not fit images of 8 x 9 pixels"):
        FlipCrop(padding=8)(torch.zeros(1, 1, 8, 9), torch.zeros(1, 3))
