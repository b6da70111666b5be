import numpy as np
import pytest
from PIL import Image

from surelabel.data.images import folder
from surelabel.data.images.common_size import common_size
from surelabel.data.shards import source as shards
from tests.data.images.test_folder import picture, write
from tests.data.shards.test_index import write as write_shards
from tests.data.shards.test_samples import png


@pytest.mark.parametrize(
    ("most", "alike", "asked", "expected"),
    [
        ((10, 12), 5, None, (10, 12)),
        ((10, 12), 4, None, (32, 32)),
        ((256, 200), 9, None, (256, 200)),
        ((3000, 4000), 9, None, (192, 256)),
        ((4000, 3000), 9, None, (256, 192)),
        ((9000, 2), 9, None, (256, 1)),
        ((3000, 4000), 9, 3000, (3000, 3000)),
        ((3000, 4000), 1, 500, (500, 500)),
    ],
)
def test_the_size_asked_for_or_of_half_of_them_within_bounds_or_32(most, alike, asked, expected):
    assert common_size(*most, alike, 9, asked) == expected


def test_large_photographs_are_made_smaller_unless_asked_for(tmp_path):
    write(tmp_path / "photos", {f"a/{number}.jpg": picture(number, (320, 240)) for number in range(3)})
    train = folder.load(tmp_path / "photos").train
    assert train.shape == (3, 192, 256)
    first = Image.open(tmp_path / "photos/a/0.jpg").resize((256, 192), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(train.samples(np.arange(1))[0], np.asarray(first).transpose(2, 0, 1))
    assert folder.load(tmp_path / "photos", size=300).train.shape == (3, 300, 300)


def test_shards_take_the_same_size_as_folders(tmp_path):
    place = write_shards(tmp_path / "s", {"0.tar": {"0.png": png((4000, 3000)), "0.cls": b"0"}})
    assert shards.load(place).train.shape == (3, 192, 256)
