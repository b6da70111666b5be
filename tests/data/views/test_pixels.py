import numpy as np
import torch
from scipy.stats import chisquare

from surelabel.data.views.pixels import take_pixels, whole_number
from surelabel.utils.rng import uniforms


def test_the_largest_draw_below_one_gives_the_largest_number():
    below_one = torch.tensor(np.nextafter(np.float32(1), np.float32(0)))
    for count in range(1, 5000):
        assert whole_number(below_one, count) == count - 1


def test_whole_numbers_are_uniform():
    # Wrong once in a thousand seeds, and the seed is fixed.
    for count in (3, 9, 14, 33):
        numbers = whole_number(torch.from_numpy(uniforms(5, "test", count, 20000, 1)), count).flatten()
        assert chisquare(np.bincount(numbers, minlength=count)).pvalue > 1e-3


def test_pixels_are_taken_as_a_plain_loop_takes_them():
    random = np.random.default_rng(0)
    images, source = random.random((3, 2, 4, 5), dtype=np.float32), random.integers(20, size=(3, 4, 5))
    taken = take_pixels(torch.from_numpy(images), torch.from_numpy(source)).numpy()
    for number, channel, y, x in np.ndindex(images.shape):
        row, column = divmod(source[number, y, x], 5)
        assert taken[number, channel, y, x] == images[number, channel, row, column]


def test_counts_may_differ_from_draw_to_draw():
    u, counts = torch.from_numpy(uniforms(6, "test", 0, 500, 1))[:, 0], torch.arange(500) + 1
    assert whole_number(u, counts).tolist() == [int(draw * count) for draw, count in zip(u, counts, strict=True)]
