import pytest
import torch
from scipy.stats import binomtest

from surelabel.data.views import Flip, FlipCrop, Identity, ResizedCrop, Solarize, Sometimes
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops

IMAGES = torch.from_numpy(crops(50, 3, 16, 16))


class Counting(Identity):
    def __call__(self, images, u):
        self.__class__.seen = len(images)
        return images


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_sometimes_applies_the_view_to_drawn_images(probability):
    view = Sometimes(probability, FlipCrop())
    assert view.draws == 4
    u = torch.from_numpy(uniforms(0, "test", 0, 50, 4))
    drawn = u[:, :1, None, None] < probability
    assert torch.equal(view(IMAGES, u), torch.where(drawn, FlipCrop()(IMAGES, u[:, 1:]), IMAGES))


def test_sometimes_computes_drawn_images_only():
    u = torch.from_numpy(uniforms(0, "test", 0, 50, 1))
    Sometimes(0.3, Counting())(IMAGES, u)
    assert Counting.seen == (u < 0.3).sum()


def test_sometimes_has_the_given_probability():
    # Wrong once in a thousand seeds, and the seed is fixed.
    black = torch.zeros(20000, 1, 1, 1, dtype=torch.uint8)
    views = Sometimes(0.2, Solarize(0))(black, torch.from_numpy(uniforms(0, "test", 0, 20000, 1)))
    assert binomtest(int((views == 255).sum()), 20000, 0.2).pvalue > 1e-3


@pytest.mark.parametrize("probability", [0, 1])
def test_sometimes_rejects_images_whatever_is_drawn(probability):
    with pytest.raises(UserError, match="must not change their height and width"):
        Sometimes(probability, ResizedCrop(8, (0.5, 1)))(IMAGES, torch.zeros(50, 23))
    with pytest.raises(UserError, match="uint8"):
        Sometimes(probability, Solarize())(IMAGES.float(), torch.zeros(50, 1))


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_sometimes_rejects_impossible_settings(probability):
    with pytest.raises(UserError, match="probability must be"):
        Sometimes(probability, Flip())
