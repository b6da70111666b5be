import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from surelabel.cli.main import main
from surelabel.data.arrays.source import ArraySource
from surelabel.data.arrays.write import SUFFIXES
from surelabel.data.images.folder import load
from surelabel.data.join import join
from surelabel.data.open import open_data
from surelabel.data.part import Part
from surelabel.inference import embed as embedding
from surelabel.inference.embed import embed
from surelabel.models.encoders.base import Encoder
from surelabel.utils.errors import Busy, UserError

PIXELS = np.random.default_rng(0).integers(0, 256, (70, 3, 6, 6), dtype=np.uint8)


class Means(Encoder):
    """The mean of each colour, which is called `most` times at most."""

    name, reads, preprocessing, dimensions, fingerprint = "means", "pictures", None, 3, "1"

    def __init__(self, most=1000, factor=1.0):
        self.calls, self.most, self.factor = 0, most, factor

    def __call__(self, batch):
        self.calls += 1
        if self.calls > self.most:
            raise KeyboardInterrupt
        return (self.factor * batch.astype(np.float32)).mean((2, 3), dtype=np.float32)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK", 16)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("half", [False, True])
def test_a_part_killed_and_resumed_joins_to_the_same_bytes(tmp_path, suffix, half):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    source, out, whole = ArraySource(PIXELS), tmp_path / f"e{suffix}", tmp_path / f"w{suffix}"
    assert embed(source, Means(), whole, half).count == 70
    for number in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            embed(source, Means(3), out, half, Part(number, 2))
        assert not Part(number, 2).file(out).exists()
        again = Means()
        made = embed(source, again, out, half, Part(number, 2))
        assert (made.before, again.calls) == (16, -(-made.count // 8) - 2)  # the third batch was of no whole chunk
    join(out)
    assert out.read_bytes() == whole.read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") and path.suffix != ".lock"]


def test_rows_of_another_call_are_not_taken(tmp_path):
    out = tmp_path / "e.npy"
    with pytest.raises(KeyboardInterrupt):
        embed(ArraySource(PIXELS), Means(5), out)
    assert embed(ArraySource(255 - PIXELS), Means(), out).before == 0
    np.testing.assert_allclose(np.load(out), (255 - PIXELS).mean((2, 3)), rtol=1e-6)


def test_names_and_classes_go_with_the_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    for number in range(9):
        folder = tmp_path / "p" / ("cat", "dog", "unlabelled")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[number].transpose(1, 2, 0)).save(folder / f"{number}.png")
    source = load(tmp_path / "p").train
    embed(source, Means(), tmp_path / "e.npz")
    train = open_data(str(tmp_path / "e.npz")).train
    index = np.arange(9)
    assert train.names(index) == source.names(index)
    assert (train.classes, train.labels.tolist()) == (source.classes, source.labels.tolist())


def test_what_cannot_be_stored_is_an_error_that_names_it(tmp_path, monkeypatch):
    bright = PIXELS.copy()
    bright[33] = 255
    with pytest.raises(UserError, match="features of 33 by means are beyond float16"):
        embed(ArraySource(bright), Means(factor=65504 / 254.9), tmp_path / "e.npy", half=True)
    calls = Means()
    free = SimpleNamespace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(UserError, match="make room"):
        embed(ArraySource(PIXELS), calls, tmp_path / "f.npy")
    assert calls.calls == 0


def test_two_processes_do_not_write_one_file(tmp_path):
    class Again(Means):
        def __call__(self, batch):
            with pytest.raises(Busy):
                embed(ArraySource(PIXELS), Means(), tmp_path / "e.npy")
            return super().__call__(batch)

    embed(ArraySource(PIXELS), Again(), tmp_path / "e.npy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "e.txt"], "embeddings are written to files"),
        (["-o", "e.npy", "--part", "5/4"], "write it as 3/16"),
        (["-o", "e.npy", "--encoder", "efficientnet-lite9"], "there is no encoder 'efficientnet-lite9'"),
        (["-o", "e.npy", "--encoder", "none"], "name a network"),
    ],
)
def test_mistakes_of_the_command_are_told_first(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["embed", "nowhere", *words]) == 2
    assert message in capsys.readouterr().err
