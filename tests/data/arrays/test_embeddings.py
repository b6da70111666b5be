import numpy as np
import pytest

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.files import holds_embeddings, load_npy, load_npz

ROWS = np.random.default_rng(0).normal(size=(6, 5))
LABELS = np.array([0, 1, 2, 0, 1, -1])
ALL = np.arange(6)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int8, np.uint8])
def test_embeddings_of_any_number_are_read_as_float32(kind, tmp_path):
    rows = (10 * ROWS).astype(kind)
    np.savez(tmp_path / "mine.npz", X=rows, y=LABELS)
    train = load_npz(tmp_path / "mine.npz").train
    assert train.samples(ALL).dtype == np.float32
    np.testing.assert_array_equal(train.samples(ALL), rows.astype(np.float32))
    assert (train.kind, train.shape, train.labels.tolist()) == ("features", (5,), LABELS.tolist())


def test_float32_stays_in_its_file(tmp_path):
    np.save(tmp_path / "mine.npy", ROWS.astype(np.float32))
    held = load_npy(tmp_path / "mine.npy").train._images
    while held.base is not None and not isinstance(held, np.memmap):
        held = held.base
    assert isinstance(held, np.memmap)


def test_a_test_set_of_embeddings(tmp_path):
    np.savez(tmp_path / "mine.npz", X=ROWS, y=LABELS, x_test=ROWS[:2], y_test=[2, 0])
    test = load_npz(tmp_path / "mine.npz").test
    assert isinstance(test, EmbeddingSource)
    assert test.labels.tolist() == [2, 0]


def test_the_header_tells_embeddings_from_images(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "images.npy", np.zeros((6, 8, 8), np.uint8))
    np.savez_compressed(tmp_path / "rows.npz", y=LABELS, X_train=ROWS)
    np.savez(tmp_path / "images.npz", X=np.zeros((6, 8, 8), np.uint8), y=LABELS)
    np.savez(tmp_path / "other.npz", y=LABELS)
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    found = {path.name for path in tmp_path.iterdir() if holds_embeddings(path)}
    assert found == {"rows.npy", "rows.npz"}


def test_the_header_alone_is_read(tmp_path):
    """A member that is cut off after its header still tells its shape."""
    np.savez(tmp_path / "rows.npz", X=np.zeros((10**6, 50), np.float16))
    whole = (tmp_path / "rows.npz").read_bytes()
    middle = len(whole) // 2
    (tmp_path / "rows.npz").write_bytes(whole[:middle] + b"\xff" * 100 + whole[middle + 100 :])
    assert holds_embeddings(tmp_path / "rows.npz")
