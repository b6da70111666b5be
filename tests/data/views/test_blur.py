import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageFilter
from scipy.ndimage import gaussian_filter

from surelabel.data.views import Blur
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import from_pillow, to_pillow

BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
SHAPES = [(3, 32, 32), (1, 28, 28), (3, 24, 40), (2, 3, 50), (1, 1, 1)]


def scipys(image, draw):
    return gaussian_filter(image.astype(float), 0.1 + 1.9 * draw, mode="nearest", radius=8, axes=(1, 2))


def draws(rows):
    u = uniforms(0, "test", 0, rows, 1)
    u[0], u[1] = 0, BELOW_ONE
    return u


@pytest.mark.parametrize("shape", SHAPES)
def test_blur_of_floats_equals_scipy(shape):
    images, u = np.random.default_rng(0).normal(size=(30, *shape)).astype(np.float32), draws(30)
    views = Blur()(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    for image, own, view in zip(images, u[:, 0].tolist(), views, strict=True):
        np.testing.assert_allclose(view, scipys(image, own), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40)])
def test_blur_of_bytes_is_within_one_grey_level_of_scipy(shape):
    images, u = crops(60, *shape), draws(60)
    views = Blur()(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    for image, own, view in zip(images, u[:, 0].tolist(), views, strict=True):
        assert np.abs(view - scipys(image, own)).max() <= 1


def test_blur_of_one_pixel_equals_a_plain_loop():
    image, y, x, sigma = crops(1, 1, 9, 12)[0, 0].astype(np.float32), 1, 10, 1.5
    total = weight = 0.0
    for down in range(-6, 7):
        for across in range(-6, 7):
            here = math.exp(-(down**2 + across**2) / (2 * sigma**2))
            weight += here
            total += here * image[min(max(y + down, 0), 8), min(max(x + across, 0), 11)]
    view = Blur((sigma, sigma))(torch.from_numpy(image)[None, None], torch.zeros(1, 1))
    assert view[0, 0, y, x].item() == pytest.approx(total / weight, rel=1e-6)


def test_blur_is_close_to_pillow():
    images, u = crops(60, 3, 32, 32), draws(60)
    views = Blur()(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    radii = (0.1 + 1.9 * u[:, 0]).tolist()
    pillows = [
        from_pillow(to_pillow(i).filter(ImageFilter.GaussianBlur(r))) for i, r in zip(images, radii, strict=True)
    ]
    off = np.abs(views.astype(int) - np.stack(pillows))
    assert off.mean() < 0.4
    assert off.max() < 20


@settings(max_examples=30)
@given(value=st.integers(0, 255), height=st.integers(1, 40), width=st.integers(1, 40))
def test_blur_keeps_one_colour(value, height, width):
    images = torch.full((3, 2, height, width), value, dtype=torch.uint8)
    u = torch.tensor([[0.0], [0.5], [BELOW_ONE]])
    assert torch.equal(Blur()(images, u), images)
    torch.testing.assert_close(Blur()(images / 7, u), images / 7)


@pytest.mark.parametrize("sigma", [(0, 1), (2, 1), (1, float("inf")), (float("nan"), 1)])
def test_blur_rejects_impossible_settings(sigma):
    with pytest.raises(UserError, match="sigma must be"):
        Blur(sigma)
