import numpy as np
import pytest
from PIL import Image

from surelabel.data.images import folder
from surelabel.data.images.common_size import common_size
from surelabel.data.shards import source as shards
from tests.helpers.images import picture, png, write_files
from tests.helpers.shards import write_shards


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
def test_common_size(most, alike, asked, expected):
    assert common_size(*most, alike, 9, asked) == expected


def test_load_shrinks_large_photographs_unless_given_a_size(tmp_path):
    write_files(tmp_path / "photos", {f"a/{number}.jpg": picture(number, (320, 240)) for number in range(3)})
    train = folder.load(tmp_path / "photos").train
    assert train.shape == (3, 192, 256)
    first = Image.open(tmp_path / "photos/a/0.jpg").resize((256, 192), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(train.samples(np.arange(1))[0], np.asarray(first).transpose(2, 0, 1))
    assert folder.load(tmp_path / "photos", size=300).train.shape == (3, 300, 300)


def test_load_shards_uses_common_size(tmp_path):
    place = write_shards(tmp_path / "s", {"0.tar": {"0.png": png((4000, 3000)), "0.cls": b"0"}})
    assert shards.load(place).train.shape == (3, 192, 256)
