import numpy as np
import pytest
import torch
from PIL import ImageEnhance

from surelabel.data.views import enhance
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, to_pillow

PILLOW = {
    enhance.brightness: ImageEnhance.Brightness,
    enhance.contrast: ImageEnhance.Contrast,
    enhance.saturation: ImageEnhance.Color,
}


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 1, 1)])
@pytest.mark.parametrize("change", PILLOW)
def test_enhance_equals_pillow(change, shape):
    images, factor = crops(91, *shape), np.linspace(0, 3, 91, dtype=np.float32)
    views = change(torch.from_numpy(images), torch.from_numpy(factor)).numpy()
    pairs = zip(images, factor.tolist(), strict=True)
    expected = [from_pillow(PILLOW[change](to_pillow(image)).enhance(own)) for image, own in pairs]
    np.testing.assert_array_equal(views, np.stack(expected))


def test_luma_equals_pillow():
    images = np.random.default_rng(0).integers(256, size=(4, 3, 100, 100)).astype(np.uint8)
    expected = np.stack([np.asarray(to_pillow(image).convert("L"))[None] for image in images])
    np.testing.assert_array_equal(enhance.luma(torch.from_numpy(images)).numpy(), expected)
