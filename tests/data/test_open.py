import numpy as np
import pytest

from surelabel.config.benchmarks import NAMED_DATA
from surelabel.data.open import NAMED, open_data
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import cifar_files, cifar_parts, write_cifar


def test_open_data_loads_a_named_set(tmp_path):
    write_cifar(tmp_path, "cifar10", "binary", False, cifar_files("cifar10", "binary", cifar_parts("cifar10")))
    assert len(open_data("cifar10", str(tmp_path)).train) == 20


def test_open_data_has_the_crystals():
    data = open_data("phc")
    assert (len(data.train), len(data.test), len(data.classes)) == (9876, 1500, 5)


def test_open_data_loads_any_path(digits_file, tmp_path):
    assert len(open_data(str(digits_file)).train) == 1400
    assert len(open_data(digits_file.name, str(digits_file.parent)).train) == 1400
    np.save(tmp_path / "images.npy", np.zeros((5, 8, 8), dtype=np.uint8))
    assert len(open_data(str(tmp_path / "images.npy")).train) == 5


@pytest.mark.parametrize(("name", "message"), [("cifra10", "Did you mean 'cifar10'"), ("a/b.npz", "It can be phc")])
def test_open_data_names_what_there_is(name, message):
    with pytest.raises(UserError, match=message):
        open_data(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("wine.tsv", "tables are read from .csv, .parquet and .jsonl"), ("cat.jpg", "give the folder that it lies in")],
)
def test_open_data_says_what_to_give_instead(name, message, tmp_path):
    (tmp_path / name).write_text("x\ty\n")
    with pytest.raises(UserError, match=message):
        open_data(str(tmp_path / name))


def test_named_data_are_those_that_load():
    assert set(NAMED_DATA) == set(NAMED)
