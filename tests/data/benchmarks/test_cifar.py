import os
import pickle

import numpy as np
import pytest

from surelabel.data.benchmarks import cifar
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import (
    CIFAR_ARCHIVE,
    CIFAR_FOLDER,
    CLASSES,
    cifar_files,
    cifar_parts,
    python2_pickle,
    write_cifar,
)

VERSIONS = [(name, version) for name in ("cifar10", "cifar100") for version in ("binary", "python")]


def expected(parts, test):
    chosen = [value for stem, value in parts.items() if stem.startswith("test") == test]
    labels = np.concatenate([labels for labels, _, _ in chosen])
    return labels, np.concatenate([pixels for _, _, pixels in chosen]).reshape(-1, 3, 32, 32)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@pytest.mark.parametrize("form", ["packed", "unpacked", "folder itself"])
def test_load_reads_each_official_form(tmp_path, name, version, form):
    parts = cifar_parts(name)
    write_cifar(tmp_path, name, version, form == "packed", cifar_files(name, version, parts))
    data = cifar.load(tmp_path / CIFAR_FOLDER[name, version] if form == "folder itself" else tmp_path, name)
    for source, test in ((data.train, False), (data.test, True)):
        labels, images = expected(parts, test)
        np.testing.assert_array_equal(source.labels, labels)
        np.testing.assert_array_equal(source.samples(np.arange(len(source))), images)
        assert source.classes == tuple(CLASSES[name])


def test_load_has_the_published_normalisation(tmp_path):
    write_cifar(tmp_path, "cifar10", "binary", False, cifar_files("cifar10", "binary", cifar_parts("cifar10")))
    data = cifar.load(tmp_path, "cifar10")
    np.testing.assert_allclose(np.array(data.offset) / 255, (0.4914, 0.4822, 0.4465))
    np.testing.assert_allclose(np.array(data.scale) / 255, (0.2471, 0.2435, 0.2616))


def test_load_accepts_any_number_of_records(tmp_path):
    parts = cifar_parts("cifar10", records=3) | {"test_batch": cifar_parts("cifar10", records=7)["test_batch"]}
    write_cifar(tmp_path, "cifar10", "binary", False, cifar_files("cifar10", "binary", parts))
    data = cifar.load(tmp_path, "cifar10")
    assert (len(data.train), len(data.test)) == (15, 7)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("given", [True, False])
def test_load_says_which_files_to_get_and_where(tmp_path, name, given):
    with pytest.raises(UserError) as caught:
        cifar.load(tmp_path if given else None, name)
    message = str(caught.value)
    for version in ("binary", "python"):
        assert CIFAR_ARCHIVE[name, version] in message
        assert CIFAR_FOLDER[name, version] in message
    assert "https://www.cs.toronto.edu/~kriz/cifar.html" in message
    assert (str(tmp_path) if given else "data_dir") in message


@pytest.mark.parametrize("cut", [1, 3072])
def test_load_rejects_a_truncated_binary_file(tmp_path, cut):
    files = cifar_files("cifar10", "binary", cifar_parts("cifar10"))
    files["data_batch_3.bin"] = files["data_batch_3.bin"][:-cut]
    write_cifar(tmp_path, "cifar10", "binary", False, files)
    with pytest.raises(UserError, match=rf"data_batch_3\.bin .* {12292 - cut:,} bytes.*has 30,730,000"):
        cifar.load(tmp_path, "cifar10")


@pytest.mark.parametrize(("file", "size"), [("train.bin", "153,700,000"), ("test.bin", "30,740,000")])
def test_load_rejects_an_empty_binary_file(tmp_path, file, size):
    files = cifar_files("cifar100", "binary", cifar_parts("cifar100")) | {file: b""}
    write_cifar(tmp_path, "cifar100", "binary", False, files)
    with pytest.raises(UserError, match=rf"{file} .* 0 bytes.*{size}"):
        cifar.load(tmp_path, "cifar100")


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_load_rejects_a_truncated_archive(tmp_path, name, version):
    write_cifar(tmp_path, name, version, True, cifar_files(name, version, cifar_parts(name)))
    path = tmp_path / CIFAR_ARCHIVE[name, version]
    half = path.stat().st_size // 2
    path.write_bytes(path.read_bytes()[:half])
    with pytest.raises(
        UserError, match=rf"{path.name} of {half:,} bytes .*official file has 1\d\d,\d\d\d,\d\d\d bytes"
    ):
        cifar.load(tmp_path, name)


def test_load_names_a_missing_batch(tmp_path):
    files = cifar_files("cifar10", "python", cifar_parts("cifar10"))
    del files["data_batch_4"]
    write_cifar(tmp_path, "cifar10", "python", True, files)
    with pytest.raises(UserError, match="lacks data_batch_4"):
        cifar.load(tmp_path, "cifar10")


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("file", ["data_batch_2", "test_batch", "batches.meta"])
def test_load_never_runs_code_from_a_pickle(tmp_path, packed, file):
    files = cifar_files("cifar10", "python", cifar_parts("cifar10"))
    files[file] = pickle.dumps({"data": Touch(tmp_path / "ran")}, 2)
    write_cifar(tmp_path, "cifar10", "python", packed, files)
    with pytest.raises(UserError, match=rf"{file} .*it asks to run posix\.system"):
        cifar.load(tmp_path, "cifar10")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({b"labels": [1, 2]}, "3072 bytes per image"),
        ({b"data": np.zeros((2, 3071), np.uint8), b"labels": [1, 2]}, "3072 bytes per image"),
        ({b"data": np.zeros((2, 3072), np.float32), b"labels": [1, 2]}, "array that is not uint8"),
        ({b"data": np.zeros((2, 3072), np.uint8)}, "no labels with one label per image"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "no labels with"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, b"2"]}, "no labels with"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 10]}, "record 1 has label 10, not 0 to 9"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [-1, 1]}, "record 0 has label -1"),
    ],
)
def test_load_rejects_a_wrong_pickled_batch(tmp_path, batch, message):
    files = cifar_files("cifar10", "python", cifar_parts("cifar10")) | {"data_batch_5": python2_pickle(batch)}
    write_cifar(tmp_path, "cifar10", "python", False, files)
    with pytest.raises(UserError, match=rf"data_batch_5 .*{message}"):
        cifar.load(tmp_path, "cifar10")


def test_load_rejects_a_label_out_of_range(tmp_path):
    parts = cifar_parts("cifar100")
    parts["test"][0][2] = 100
    write_cifar(tmp_path, "cifar100", "binary", False, cifar_files("cifar100", "binary", parts))
    with pytest.raises(UserError, match=r"test\.bin .*record 2 has label 100"):
        cifar.load(tmp_path, "cifar100")


@pytest.mark.parametrize("names", [b"only\nthree\nnames\n", b""])
def test_load_rejects_a_wrong_number_of_class_names(tmp_path, names):
    files = cifar_files("cifar10", "binary", cifar_parts("cifar10")) | {"batches.meta.txt": names}
    write_cifar(tmp_path, "cifar10", "binary", False, files)
    with pytest.raises(UserError, match=r"batches\.meta\.txt names \d classes instead of 10"):
        cifar.load(tmp_path, "cifar10")
