import pytest
from PIL import Image

from surelabel.data import probe
from surelabel.data.probe import looks_photographic


@pytest.fixture
def pictures(tmp_path):
    def made(count, size, mode):
        for number in range(count):
            place = tmp_path / "all" / f"{mode}{size[0]}"
            place.mkdir(parents=True, exist_ok=True)
            Image.new(mode, size).save(place / f"{number}.png")
        return tmp_path / "all"

    return made


def test_looks_photographic_for_photographs(pictures, monkeypatch):
    monkeypatch.setattr(probe, "MOST_SMALL", 0)
    pictures(6, (200, 100), "RGB")
    (pictures(3, (28, 28), "L") / "note.txt").write_text("not a picture")
    assert looks_photographic(pictures(0, (1, 1), "L"))


def test_looks_photographic_for_a_few_small_images(pictures, monkeypatch):
    pictures(3, (200, 100), "RGB")
    pictures(4, (200, 100), "L")
    folder = pictures(4, (32, 32), "RGB")
    assert looks_photographic(folder)
    monkeypatch.setattr(probe, "MOST_SMALL", 10)
    assert not looks_photographic(folder)
    monkeypatch.setattr(probe, "MOST_SMALL", 11)
    assert looks_photographic(folder)


def test_looks_photographic_not_for_tiny_images(pictures):
    pictures(3, (200, 100), "RGB")
    assert not looks_photographic(pictures(4, (27, 100), "RGB"))


def test_looks_photographic_needs_the_pretrained_extra(pictures, monkeypatch):
    monkeypatch.setattr("surelabel.config.encoders.find_spec", lambda _: None)
    assert not looks_photographic(pictures(3, (200, 100), "RGB"))


def test_looks_photographic_ignores_hidden_files_of_macs(pictures):
    folder = pictures(3, (200, 100), "RGB")
    (folder / "__MACOSX").mkdir()
    for number in range(60):
        Image.new("L", (8, 8)).save(folder / "__MACOSX" / f"{number}.png")
        Image.new("L", (8, 8)).save(folder / f"._{number}.png")
    assert looks_photographic(folder)


def test_looks_photographic_reads_all_formats(pictures):
    folder = pictures(0, (1, 1), "L")
    folder.mkdir()
    Image.new("RGB", (200, 100)).save(folder / "a.ppm")
    assert looks_photographic(folder)
