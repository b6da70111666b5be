import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from surelabel.data.views import ResizedCrop
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator, uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_paws import box, resized_crop
from tests.data.views.pillow_policy import from_pillow, to_pillow

BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
DRAW = st.one_of(st.sampled_from([0.0, BELOW_ONE]), st.floats(0, BELOW_ONE, width=32))
# Each statistical test is wrong for one seed in a thousand; the seeds are fixed.
ERROR_RATE = 1e-3


@pytest.mark.parametrize("scale", [(0.75, 1.0), (0.3, 0.75), (0.05, 0.14), (1.0, 1.0)])
@pytest.mark.parametrize("size", [None, 18, 32, 64])
@pytest.mark.parametrize(
    ("shape", "share"), [((3, 32, 32), 0.02), ((1, 28, 28), 0.02), ((3, 24, 40), 0.04), ((3, 120, 61), 0.15)]
)
def test_resized_crop_of_bytes_is_within_one_grey_level_of_pillow(shape, share, size, scale):
    """More differ at 4 : 5, where a tenth of all sums end in a half, and in tall boxes."""
    images, u = crops(60, *shape), uniforms(0, "test", 0, 60, 22)
    views = ResizedCrop(size, scale)(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    pairs = zip(images, u.tolist(), strict=True)
    expected = np.stack([from_pillow(resized_crop(to_pillow(image), own, size, scale)) for image, own in pairs])
    off = np.abs(views.astype(int) - expected)
    assert off.max() <= 1
    assert (off > 0).mean() < share


@pytest.mark.parametrize("size", [None, 5, 40])
def test_resized_crop_of_floats_equals_pillow(size):
    images = np.random.default_rng(0).normal(size=(40, 5, 20, 28)).astype(np.float32)
    u = uniforms(0, "test", 0, 40, 22)
    views = ResizedCrop(size, (0.1, 1))(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    for image, own, view in zip(images, u.tolist(), views, strict=True):
        for channel, new in zip(image, view, strict=True):
            expected = np.asarray(resized_crop(to_pillow(channel[None]), own, size, (0.1, 1)))
            np.testing.assert_allclose(new, expected, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    draws=st.lists(st.lists(DRAW, min_size=22, max_size=22), min_size=1, max_size=8),
    height=st.integers(1, 50),
    width=st.integers(1, 50),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda pair: tuple(sorted(pair))),
    ratio=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)).map(lambda pair: tuple(sorted(pair))),
)
def test_resized_crop_boxes_equal_a_plain_loop(draws, height, width, scale, ratio):
    boxes = torch.stack(ResizedCrop(None, scale, ratio).boxes(height, width, torch.tensor(draws)), dim=1)
    for (top, left, h, w), own in zip(boxes.tolist(), draws, strict=True):
        assert (left, top, left + w, top + h) == box(width, height, own, scale, ratio)
        assert 0 <= top < top + h <= height
        assert 0 <= left < left + w <= width


@pytest.mark.parametrize(("height", "width"), [(32, 32), (96, 64), (20, 90)])
@pytest.mark.parametrize("scale", [(0.3, 0.75), (0.75, 1.0)])
def test_resized_crop_boxes_have_the_right_distribution(height, width, scale):
    """Against a plain loop over images and tries, fed by another generator."""
    rows = 6000
    u = torch.from_numpy(uniforms(7, "test", height, rows, 22))
    top, left, h, w = (part.numpy() for part in ResizedCrop(None, scale).boxes(height, width, u))
    random = generator(8, "other", height)
    others = np.array([box(width, height, random.random(22).tolist(), scale) for _ in range(rows)])
    other_w, other_h = others[:, 2] - others[:, 0], others[:, 3] - others[:, 1]
    assert ks_2samp(h * w, other_h * other_w, method="asymp").pvalue > ERROR_RATE
    assert ks_2samp(w / h, other_w / other_h, method="asymp").pvalue > ERROR_RATE
    assert ks_2samp(top, others[:, 1], method="asymp").pvalue > ERROR_RATE
    assert ks_2samp(left, others[:, 0], method="asymp").pvalue > ERROR_RATE


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_resized_crop_of_everything_is_the_image(dtype):
    images = torch.from_numpy(crops(50, 3, 32, 32)).to(dtype)
    views = ResizedCrop(None, (1, 1))(images, torch.from_numpy(uniforms(0, "test", 0, 50, 22)))
    assert torch.equal(views, images)


@settings(max_examples=30)
@given(value=st.integers(0, 255), height=st.integers(1, 700), width=st.integers(1, 40), size=st.integers(1, 40))
def test_resized_crop_keeps_one_colour(value, height, width, size):
    images = torch.full((3, 2, height, width), value, dtype=torch.uint8)
    u = torch.tensor([[0.0] * 22, [BELOW_ONE] * 22, [0.5] * 22])
    view = ResizedCrop(size, (0.2, 1))
    assert torch.equal(view(images, u), torch.full((3, 2, size, size), value, dtype=torch.uint8))
    torch.testing.assert_close(view(images / 7, u), torch.full((3, 2, size, size), value / 7))


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 0, "scale": (0.5, 1)},
        {"size": 8, "scale": (0, 1)},
        {"size": 8, "scale": (0.5, 1.1)},
        {"size": 8, "scale": (0.7, 0.6)},
        {"size": 8, "scale": (float("nan"), 1)},
        {"size": 8, "scale": (0.5, 1), "ratio": (0, 1)},
        {"size": 8, "scale": (0.5, 1), "ratio": (2, 1)},
        {"size": 8, "scale": (0.5, 1), "ratio": (1, float("inf"))},
    ],
)
def test_resized_crop_rejects_impossible_settings(settings):
    with pytest.raises(UserError, match="size must be 1 or more, scale two fractions"):
        ResizedCrop(**settings)
