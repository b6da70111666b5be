import numpy as np
import pytest
import torch
from PIL import ImageOps

from surelabel.data.views import Equalize, Grey, Solarize
from surelabel.utils.errors import UserError
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, to_pillow

PILLOW = {
    Solarize(128): ImageOps.solarize,
    Solarize(0): lambda image: ImageOps.solarize(image, 0),
    Solarize(255): lambda image: ImageOps.solarize(image, 255),
    Equalize(): ImageOps.equalize,
    Grey(): lambda image: image.convert("L").convert(image.mode),
}


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 1, 1)])
@pytest.mark.parametrize("view", PILLOW, ids=str)
def test_recolour_equals_pillow(view, shape):
    images = crops(60, *shape)
    views = view(torch.from_numpy(images), torch.empty(60, 0)).numpy()
    np.testing.assert_array_equal(views, np.stack([from_pillow(PILLOW[view](to_pillow(image))) for image in images]))


def test_solarize_with_random_thresholds_equals_pillow():
    images = crops(60, 3, 32, 32)
    u = torch.linspace(0, 1, 60).clamp(max=1 - 2**-24)[:, None]
    views = Solarize()(torch.from_numpy(images), u).numpy()
    for image, view, draw in zip(images, views, u[:, 0].tolist(), strict=True):
        threshold = 1 + int(draw * 256)
        np.testing.assert_array_equal(view, from_pillow(ImageOps.solarize(to_pillow(image), threshold)))
    np.testing.assert_array_equal(views[-1], images[-1])


@pytest.mark.parametrize("threshold", [-1, 256])
def test_solarize_rejects_impossible_settings(threshold):
    with pytest.raises(UserError, match="threshold must be"):
        Solarize(threshold)
