import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from surelabel.data.views import Equalize, Grey, Jitter, RandAugment, Solarize, paws_view
from surelabel.data.views.pixels import take_pixels, whole_number
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms


def test_whole_number_of_the_largest_draw():
    below_one = torch.tensor(np.nextafter(np.float32(1), np.float32(0)))
    for count in range(1, 5000):
        assert whole_number(below_one, count) == count - 1


def test_whole_number_is_uniform():
    # Wrong once in a thousand seeds, and the seed is fixed.
    for count in (3, 9, 14, 33):
        numbers = whole_number(torch.from_numpy(uniforms(5, "test", count, 20000, 1)), count).flatten()
        assert chisquare(np.bincount(numbers, minlength=count)).pvalue > 1e-3


def test_take_pixels_equals_a_plain_loop():
    random = np.random.default_rng(0)
    images, source = random.random((3, 2, 4, 5), dtype=np.float32), random.integers(20, size=(3, 4, 5))
    taken = take_pixels(torch.from_numpy(images), torch.from_numpy(source)).numpy()
    for number, channel, y, x in np.ndindex(images.shape):
        row, column = divmod(source[number, y, x], 5)
        assert taken[number, channel, y, x] == images[number, channel, row, column]


@pytest.mark.parametrize(("channels", "dtype"), [(3, torch.float32), (4, torch.uint8)])
@pytest.mark.parametrize(
    ("view", "name"),
    [
        (Jitter(1), "the view Jitter"),
        (Solarize(), "the view Solarize"),
        (Equalize(), "the view Equalize"),
        (Grey(), "the view Grey"),
        (RandAugment(), "the strong view"),
        (paws_view(None, (0.5, 1), "cifar"), "the view Jitter"),
        (paws_view(None, (0.5, 1), "imagenet"), "the view Jitter"),
    ],
    ids=str,
)
def test_check_bytes_rejects_unsuitable_images(view, name, channels, dtype):
    with pytest.raises(UserError, match=f"{name} needs uint8 images with 1 or 3 channels"):
        view(torch.zeros(1, channels, 8, 8, dtype=dtype), torch.full((1, view.draws), 0.99))


def test_whole_number_takes_one_count_per_draw():
    u, counts = torch.from_numpy(uniforms(6, "test", 0, 500, 1))[:, 0], torch.arange(500) + 1
    assert whole_number(u, counts).tolist() == [int(draw * count) for draw, count in zip(u, counts, strict=True)]
