import sys

import pytest
from PIL import Image

from surelabel.phc.pictures import draw_pictures
from surelabel.utils.errors import UserError


@pytest.mark.slow
def test_draw_pictures_writes_four_small_files(tmp_path):
    written = draw_pictures(tmp_path / "images")
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == sorted(path.name for path in written)
    assert [path.stem for path in written] == ["phc-crystals", "phc-bands", "phc-density", "phc-classes"]
    for path in written:
        assert path.stat().st_size < 150_000
        with Image.open(path) as picture:
            assert picture.width == 960
            assert len(picture.convert("RGB").getcolors(2**24)) > 20  # not an empty page


def test_draw_pictures_without_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match="figures"):
        draw_pictures(tmp_path)
