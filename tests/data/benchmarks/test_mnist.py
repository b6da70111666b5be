import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from surelabel.data.benchmarks import mnist
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import idx as idx_bytes
from tests.data.benchmarks.official_files import write_idx

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("inner", [".", "{name}", "{raw}/raw"])
def test_load_returns_what_was_written(tmp_path, name, compressed, inner):
    inner = inner.format(name=name, raw={"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}[name])
    written = write_idx(tmp_path / inner, compressed)
    data = mnist.load(tmp_path, name)
    for source, part in ((data.train, "train"), (data.test, "t10k")):
        images, labels = written[part]
        np.testing.assert_array_equal(source.samples(np.arange(len(source))), images[:, None])
        np.testing.assert_array_equal(source.labels, labels)
        assert source.shape == (1, 28, 28)
    assert len(data.classes) == 10


@pytest.mark.parametrize(("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)])
def test_load_has_the_published_normalisation(tmp_path, name, mean, std):
    write_idx(tmp_path)
    data = mnist.load(tmp_path, name)
    assert (data.offset, data.scale) == ((pytest.approx(255 * mean),), (pytest.approx(255 * std),))


@pytest.mark.slow
@pytest.mark.skipif(not DEBIAN.is_dir(), reason="needs the Debian package dataset-fashion-mnist")
def test_load_finds_the_real_fashion_mnist_by_default():
    data = mnist.load(None, "fashion-mnist")
    assert (len(data.train), len(data.test)) == (60_000, 10_000)
    np.testing.assert_array_equal(np.bincount(data.train.labels), [6000] * 10)
    np.testing.assert_array_equal(np.bincount(data.test.labels), [1000] * 10)
    pixels = data.train.samples(np.arange(60_000))
    assert pixels.mean() == pytest.approx(data.offset[0], abs=0.02)
    assert pixels.std() == pytest.approx(data.scale[0], abs=0.02)
    assert data.classes[data.train.labels[0]] == "Ankle boot"


@pytest.mark.parametrize(
    ("name", "where"), [("mnist", "yann.lecun.com"), ("fashion-mnist", "apt-get install dataset-fashion-mnist")]
)
def test_load_says_which_files_to_get_and_where(tmp_path, name, where):
    with pytest.raises(UserError) as caught:
        mnist.load(tmp_path, name)
    for text in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", where, str(tmp_path)):
        assert text in str(caught.value)


def test_load_needs_a_folder_for_mnist():
    with pytest.raises(UserError, match="no data_dir is given"):
        mnist.load(None, "mnist")


def test_load_rejects_a_folder_that_lacks_one_file(tmp_path):
    write_idx(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match="lacks at least one"):
        mnist.load(tmp_path, "mnist")


def test_load_rejects_a_truncated_file_with_its_sizes(tmp_path):
    write_idx(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-100])
    expected, found = 16 + 20 * 784, 16 + 20 * 784 - 100
    with pytest.raises(UserError, match=rf"train-images-idx3-ubyte .*{found:,} bytes instead of {expected:,}"):
        mnist.load(tmp_path, "mnist")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_load_rejects_a_truncated_compressed_file(tmp_path, share):
    write_idx(tmp_path, compressed=True)
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte\.gz"):
        mnist.load(tmp_path, "mnist")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train-images-idx3-ubyte", b"", "not an IDX file"),
        ("train-images-idx3-ubyte", b"\0\0\x0d\3" + bytes(12), "bytes in 3 dimension"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros(20, np.uint8)), "bytes in 3 dimension"),
        ("train-images-idx3-ubyte", b"\0\0\x08\3" + b"\xff" * 12, "16 bytes instead of"),
        ("train-images-idx3-ubyte", idx_bytes(np.zeros((0, 28, 28), np.uint8)), "there are no samples"),
        ("train-labels-idx1-ubyte", idx_bytes(np.zeros(19, np.uint8)), "20 images but 19 labels"),
        ("train-labels-idx1-ubyte", idx_bytes(np.zeros(20, np.uint8)) + b"x", "29 bytes instead of 28"),
        ("train-labels-idx1-ubyte", idx_bytes(np.full(20, 10, np.uint8)), "sample 0 is 10, outside 0 to 9"),
    ],
)
def test_load_rejects_wrong_files(tmp_path, file, content, message):
    write_idx(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=message):
        mnist.load(tmp_path, "mnist")


def test_load_accepts_plain_beside_compressed_files(tmp_path):
    written = write_idx(tmp_path)
    path = tmp_path / "train-labels-idx1-ubyte"
    with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    path.unlink()
    np.testing.assert_array_equal(mnist.load(tmp_path, "mnist").train.labels, written["train"][1])
