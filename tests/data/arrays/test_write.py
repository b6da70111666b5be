import numpy as np
import pytest
from safetensors.numpy import load_file

from surelabel.data.arrays import write
from surelabel.data.arrays.write import SUFFIXES, Embeddings, check_suffix, read_embeddings, write_embeddings
from surelabel.data.join import join
from surelabel.data.open import open_data
from surelabel.data.part import Part
from surelabel.utils.errors import UserError

pytest.importorskip("pyarrow")
ROWS = np.random.default_rng(0).normal(size=(50, 3))
IDS = np.array([f"ä/{number}.png" for number in range(50)])
LABELS = np.array(["cat", "dog", "-1", "10"])[np.arange(50) % 4]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(write, "BLOCK", 16)


def opened(path):
    column = "embedding" if path.suffix == ".parquet" else None
    return open_data(str(path), embedding_column=column).train


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_opened(tmp_path, suffix, kind):
    path, rows = tmp_path / f"e{suffix}", ROWS.astype(kind)
    write_embeddings(path, Embeddings([rows[:7], rows[7:30], rows[30:]], IDS, LABELS))
    train = opened(path)
    assert train._images.dtype == kind
    np.testing.assert_array_equal(train.samples(np.arange(50)), rows.astype(np.float32))
    assert train.names(np.arange(50)) == IDS.tolist()
    assert np.array([*train.classes, "-1"])[train.labels].tolist() == LABELS.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("texts", [(IDS, LABELS), (IDS, None), (None, None)])
def test_parts_join_to_the_same_bytes(tmp_path, suffix, texts):
    rows, whole, out = ROWS.astype(np.float16), tmp_path / f"whole{suffix}", tmp_path / f"joined{suffix}"
    write_embeddings(whole, Embeddings([rows], *texts))
    for number in range(1, 6):
        index = np.array(Part(number, 5).rows(50, 16), dtype=np.int64)  # the fifth is empty
        some = [None if text is None else text[index] for text in texts]
        write_embeddings(Part(number, 5).file(out), Embeddings([rows[index]], *some))
    join(out)
    assert out.read_bytes() == whole.read_bytes()
    if suffix == ".npy" and texts[0] is not None:
        assert out.with_suffix(".ids.npy").read_bytes() == whole.with_suffix(".ids.npy").read_bytes()


def test_safetensors_are_those_of_the_package(tmp_path):
    write_embeddings(tmp_path / "e.safetensors", Embeddings([ROWS.astype(np.float32)], IDS))
    np.testing.assert_array_equal(load_file(tmp_path / "e.safetensors")["embeddings"], ROWS.astype(np.float32))


def test_parts_of_different_commands_are_refused(tmp_path):
    out = tmp_path / "e.npy"
    write_embeddings(Part(1, 2).file(out), Embeddings([ROWS.astype(np.float32)]))
    write_embeddings(Part(2, 2).file(out), Embeddings([ROWS.astype(np.float16)]))
    with pytest.raises(UserError, match="differ in width, type"):
        join(out)
    with pytest.raises(UserError, match=r"\.npy, \.npz"):
        check_suffix(tmp_path / "e.txt")
    assert len(read_embeddings(Part(1, 2).file(out))) == 50
