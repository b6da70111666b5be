from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from surelabel.inference.near_duplicates import near_duplicates
from tests.conftest import digits

PHOTO = load_sample_image("china.jpg")


def crops(count):
    random = np.random.default_rng(0)
    # Below the sky, where crops are alike.
    places = random.integers([150, 0], [PHOTO.shape[0] - 64, PHOTO.shape[1] - 64], (count, 2))
    return np.stack([PHOTO[y : y + 64, x : x + 64].transpose(2, 0, 1) for y, x in places])


def again(image, change):
    """An image that was saved as JPEG, scaled down and up, or dimmed."""
    picture = Image.fromarray(image.transpose(1, 2, 0))
    if change == "jpeg":
        held = BytesIO()
        picture.save(held, "JPEG", quality=75)
        picture = Image.open(held)
    elif change == "scaled":
        picture = picture.resize((40, 40)).resize((64, 64))
    else:
        picture = picture.point(lambda value: min(255, value // 2 + 40))
    return np.asarray(picture).transpose(2, 0, 1)


@pytest.mark.parametrize("change", ["jpeg", "scaled", "dimmer"])
def test_near_duplicates_finds_changed_copies_only(change):
    pictures = crops(60)
    second = pictures[30:].copy()
    second[4], second[7] = again(pictures[3], change), again(pictures[11], change)
    assert near_duplicates(np.array_split(pictures[:30], 4), [second]).tolist() == [[3, 4], [11, 7]]


def test_near_duplicates_keeps_different_digits_apart():
    images, _ = digits()
    pairs = near_duplicates([images[:60]], np.array_split(images[60:400], 3))
    assert len(pairs) <= 3  # a few look alike to the eye as well


def test_near_duplicates_ignores_images_of_one_colour():
    flat = np.full((3, 1, 8, 8), 7, dtype=np.uint8)
    assert near_duplicates([flat], [flat]).shape == (0, 2)
    assert near_duplicates([], [flat]).shape == (0, 2)
