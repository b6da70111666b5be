import numpy as np
import pytest
import torch

from surelabel.data.views import Periodic
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms


def plain(image, u):
    """[C, N, N] rolled, turned and flipped by numpy."""
    side = image.shape[1]
    rolled = np.roll(image, (int(u[0] * side), int(u[1] * side)), axis=(1, 2))
    turned = np.rot90(rolled, int(u[2] * 4), axes=(1, 2))
    flip = int(u[3] * 3)
    return turned if flip == 2 else np.flip(turned, axis=1 + flip)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("side", [1, 7, 32])
def test_periodic_equals_numpy(side, dtype):
    images = (np.random.default_rng(0).random((400, 2, side, side)) * 255).astype(dtype)
    u = uniforms(0, "test", 0, 400, 4)
    views = Periodic()(torch.from_numpy(images), torch.from_numpy(u))
    expected = np.stack([plain(image, own) for image, own in zip(images, u.tolist(), strict=True)])
    np.testing.assert_array_equal(views.numpy(), expected)


def test_periodic_keeps_neighbours_across_the_border():
    """The multiset of steps between adjacent pixels, also across the border, does not change."""

    def steps(images):
        both = torch.cat([(images - images.roll(1, axis)).abs().flatten(1) for axis in (2, 3)], dim=1)
        return both.sort(dim=1).values

    images = torch.from_numpy(np.random.default_rng(0).random((50, 1, 8, 8), dtype=np.float32))
    views = Periodic()(images, torch.from_numpy(uniforms(1, "test", 0, 50, 4)))
    assert not torch.equal(views, images)
    assert torch.equal(steps(views), steps(images))


def test_periodic_rejects_images_that_are_not_square():
    with pytest.raises(UserError, match="needs square images, but these have 8 x 9"):
        Periodic()(torch.zeros(1, 1, 8, 9), torch.zeros(1, 4))
