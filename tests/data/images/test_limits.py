"""Large files are refused by their size, before they are read."""

import subprocess
import sys

import pytest
from PIL import Image

from surelabel.data.images import folder
from surelabel.data.images.decode import read_header
from surelabel.data.images.limits import most_bytes, most_pixels
from surelabel.data.label_rows import read_label_rows
from surelabel.utils.errors import UserError
from tests.helpers.images import png, write_files

GIB = 2**30
# Reads a file with a limit on the memory of the process.
LIMITED = """
import resource, sys
from pathlib import Path
import numpy, PIL.Image
from surelabel.data.probe import looks_photographic
from surelabel.data.images import folder
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
looks_photographic(sys.argv[1])
data = folder.load(sys.argv[1])
print(len(data.train), *data.train.skipped)
"""


def sparse(path, size, start=b""):
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)
    return path


@pytest.mark.slow
def test_picture_with_holes_takes_no_memory(tmp_path):
    write_files(tmp_path, {"a/1.png": png(), "b/2.png": png()})
    # A chunk of 2 GiB, which Pillow would read as a whole.
    start = png()[:33] + (2**31 - 1).to_bytes(4, "big") + b"tEXt"
    sparse(tmp_path / "a" / "0.png", 3 * GIB, start)
    ended = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("2 ('a/0.png', '3,221,225,472 bytes are more than 268,435,456")


def test_limits_are_settings(tmp_path, monkeypatch):
    write_files(tmp_path, {"a/1.png": png((2000, 2000)), "a/3.png": png(), "b/2.png": png()})
    assert len(folder.load(tmp_path).train) == 3
    monkeypatch.setenv("SURELABEL_IMAGE_MEGAPIXELS", "2")
    ((name, reason),) = folder.load(tmp_path).train.skipped
    assert (name, "SURELABEL_IMAGE_MEGAPIXELS" in reason) == ("a/1.png", True)
    sparse(tmp_path / "b" / "4.png", 2**21, png())
    assert len(folder.load(tmp_path).train) == 3
    monkeypatch.setenv("SURELABEL_IMAGE_MEGABYTES", "1")
    assert "SURELABEL_IMAGE_MEGABYTES" in dict(folder.load(tmp_path).train.skipped)["b/4.png"]


def test_higher_limit_than_pillows_own_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    monkeypatch.setenv("SURELABEL_IMAGE_MEGAPIXELS", "1")
    write_files(tmp_path, {"1.png": png((40, 40))})
    assert read_header(tmp_path / "1.png").width == 40


@pytest.mark.parametrize("wrong", ["x", "0", "-1", "1.5", "9" * 30])
def test_limit_that_is_none_is_an_error(wrong, monkeypatch):
    assert (most_pixels(), most_bytes()) == (2**26, 2**28)
    monkeypatch.setenv("SURELABEL_IMAGE_MEGAPIXELS", wrong)
    with pytest.raises(UserError, match="SURELABEL_IMAGE_MEGAPIXELS"):
        most_pixels()


@pytest.mark.parametrize("start", [b"", b"path,label\n"])
def test_table_of_labels_with_an_endless_line_is_refused(tmp_path, start):
    with pytest.raises(UserError, match="a line of more than"):
        read_label_rows(sparse(tmp_path / "labels.csv", 2**25, start))
