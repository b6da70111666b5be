import io
from base64 import b64decode

import numpy as np
import pytest
from PIL import Image

from surelabel.report.thumbnails import SIDE, thumbnails


def decoded(thumbnail):
    head, _, content = thumbnail.address.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(b64decode(content))))


@pytest.mark.parametrize("channels", [1, 3])
def test_thumbnails_keep_small_images_pixel_by_pixel(channels):
    images = np.random.default_rng(0).integers(0, 256, (4, channels, 9, 7), dtype=np.uint8)
    for image, made in zip(images, thumbnails(images), strict=True):
        assert made.small
        np.testing.assert_array_equal(decoded(made), image[0] if channels == 1 else np.moveaxis(image, 0, -1))


def test_thumbnails_scale_floats_from_black_to_white():
    images = np.array([[[[1.0, 3.0]]], [[[5.0, 2.0]]]], dtype=np.float32)
    assert [decoded(made).tolist() for made in thumbnails(images)] == [[[0, 128]], [[255, 64]]]
    assert [decoded(made).tolist() for made in thumbnails(np.ones_like(images))] == [[[0, 0]], [[0, 0]]]


def test_thumbnails_shrink_large_images():
    (made,) = thumbnails(np.zeros((1, 3, 100, 300), dtype=np.uint8))
    assert not made.small
    assert decoded(made).shape == (pytest.approx(SIDE / 3, abs=1), SIDE, 3)


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 40), (2, 4, 8, 8), (0, 3, 8, 8)])
def test_thumbnails_are_none_for_other_samples(shape):
    assert list(thumbnails(np.zeros(shape, dtype=np.uint8))) == [None] * shape[0]
