import pytest
from PIL import Image

from surelabel import look
from surelabel.look import suits_pretrained


@pytest.fixture
def pictures(tmp_path):
    def made(count, size, mode):
        for number in range(count):
            place = tmp_path / "all" / f"{mode}{size[0]}"
            place.mkdir(parents=True, exist_ok=True)
            Image.new(mode, size).save(place / f"{number}.png")
        return tmp_path / "all"

    return made


def test_photographs_suit(pictures):
    pictures(6, (200, 100), "RGB")
    (pictures(3, (28, 28), "L") / "note.txt").write_text("not a picture")
    assert suits_pretrained(pictures(0, (1, 1), "L"))


def test_small_and_grey_pictures_do_not(pictures):
    pictures(3, (200, 100), "RGB")
    pictures(4, (200, 100), "L")
    assert not suits_pretrained(pictures(4, (32, 32), "RGB"))


def test_without_the_weights_nothing_suits(pictures, monkeypatch):
    monkeypatch.setattr(look, "find_spec", lambda _: None)
    assert not suits_pretrained(pictures(3, (200, 100), "RGB"))
