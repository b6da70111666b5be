import numpy as np
import pytest
import torch

from surelabel.data.views import Blur, Chain, Flip, Grey, Jitter, ResizedCrop, Sometimes, paws_view
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_paws import after_crop
from tests.data.views.pillow_policy import from_pillow, to_pillow

KINDS = {"cifar": torch.uint8, "imagenet": torch.uint8, "crops": torch.float32}
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_paws_view_after_the_crop_equals_pillow(shape):
    crop, *rest = paws_view(18, (0.3, 0.75), "cifar").parts
    view = Chain(rest)
    assert crop == ResizedCrop(18, (0.3, 0.75))
    images, u = crops(400, *shape), uniforms(1, "test", 0, 400, view.draws)
    views = view(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    pairs = zip(images, u.tolist(), strict=True)
    np.testing.assert_array_equal(views, [from_pillow(after_crop(to_pillow(image), own)) for image, own in pairs])


def test_paws_view_for_imagenet_and_crops():
    crop = ResizedCrop(None, (0.14, 1))
    natural = Sometimes(0.8, Jitter(1)), Sometimes(0.2, Grey()), Sometimes(0.5, Blur())
    assert paws_view(None, (0.14, 1), "imagenet") == Chain((crop, Flip(), *natural))
    assert paws_view(None, (0.14, 1), "crops") == Chain((crop, Flip()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", [0.0, BELOW_ONE])
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 1), (1, 2, 7), (3, 40, 3)])
def test_paws_view_of_extreme_draws_and_tiny_images(kind, draw, shape):
    images = torch.from_numpy(crops(2, *shape)).to(KINDS[kind])
    for size, expected in [(None, shape[1:]), (5, (5, 5))]:
        view = paws_view(size, (0.3, 0.75), kind)
        views = view(images, torch.full((2, view.draws), draw))
        assert views.shape == (2, shape[0], *expected)
        assert views.isfinite().all()


def test_paws_view_suggests_the_nearest_colours():
    with pytest.raises(UserError, match=r"'cifer'\. Did you mean 'cifar'\?"):
        paws_view(None, (0.5, 1), "cifer")
