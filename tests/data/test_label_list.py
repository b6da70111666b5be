from dataclasses import replace

import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.data.label_list import read_listed
from surelabel.data.open import open_data
from surelabel.training import build, build_data
from surelabel.utils.errors import UserError
from tests.helpers.images import encoded, picture, write_files
from tests.helpers.runs import fit_folder
from tests.helpers.shards import write_shards

FILES = [f"train/{kind}/{kind}_{number}.png" for kind in ("cat", "dog") for number in range(12)]
TEST = [f"test/{kind}/{kind}_{number}.png" for kind in ("cat", "dog") for number in range(100, 104)]


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path / "pets", {file: picture(number) for number, file in enumerate([*FILES, *TEST])})
    return tmp_path / "pets"


def listed(place, *lines):
    path = place / "tenth.txt"
    path.write_text("\n".join(lines))
    return path


def chosen(tiny, data, path):
    run = replace(tiny, data=str(data), labels=str(path))
    source = open_data(run.data)
    return build_data.build_split(run, source), source


@pytest.mark.parametrize(
    "lines",
    [
        ("dog_3.png", "cat_1.JPEG", "", "cat_11"),
        ("dog/dog_3.png", "cat/cat_1.png", "train/cat/cat_11.png"),
        ("  dog_3.png  ", "cat/cat_1.png", "cat_11.png", "cat_11.png"),
    ],
    ids=["names", "paths", "mixed"],
)
def test_labels_file_selects_files_of_a_folder(tiny, folder, tmp_path, lines):
    labelled, source = chosen(tiny, folder, listed(tmp_path, *lines))
    assert [source.train.paths[place] for place in labelled] == [
        "train/cat/cat_1.png", "train/cat/cat_11.png", "train/dog/dog_3.png",
    ]  # fmt: skip
    assert len(source.train) == len(FILES)
    assert (source.train.labels >= 0).all()  # for the purity metric, not for training


def test_labels_file_selects_members_of_shards(tiny, tmp_path):
    def shard(numbers):
        made = {f"n{number:03}.png": encoded(number) for number in numbers}
        return made | {f"n{number:03}.cls": str(number % 2).encode() for number in numbers}

    data = write_shards(tmp_path / "shards", {"train-0.tar": shard(range(10)), "train-1.tar": shard(range(10, 30)),
                                              "val-0.tar": shard(range(40, 44))})  # fmt: skip
    labelled, source = chosen(tiny, data, listed(tmp_path, "n025.JPEG", "n004.JPEG", "n011.JPEG"))
    assert labelled.tolist() == [4, 11, 25]
    assert source.train.labels[labelled].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["cat_1.png", "cow_1.png"], r"names 1 files .*: cow_1 \(line 2\)"),
        (["cat_100.png"], "not among the training images"),
        (["", ""], "is empty"),
    ],
)
def test_labels_file_rejects_bad_lines(tiny, folder, tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        chosen(tiny, folder, listed(tmp_path, *lines))


def test_read_listed_rejects_ambiguous_and_unlabelled_files(tmp_path):
    path = listed(tmp_path, "1.png")
    with pytest.raises(UserError, match="line 1: several files are named 1"):
        read_listed(path, ["cat/1.png", "dog/1.png"], np.array([0, 1]))
    with pytest.raises(UserError, match="line 1: 1 has no label"):
        read_listed(path, ["1.png"], np.array([-1]))
    with pytest.raises(UserError, match="cannot be read"):
        read_listed(tmp_path / "none.txt", ["1.png"], np.array([0]))


def test_labels_file_rejects_data_without_files(tiny, digits_data, tmp_path):
    with pytest.raises(UserError, match=r"have no file names"):
        build_data.build_split(replace(tiny, labels=str(listed(tmp_path, "1.png"))), digits_data)


def test_fit_with_labels_file_is_named_after_it_and_resumes(tiny, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, *(f"{kind}_{number}.png" for kind in ("cat", "dog") for number in range(6)))
    run = replace(tiny, data="pets", labels="tenth.txt", steps=2, out=None)
    made = fit_folder(run)
    assert made.path.name == "fixmatch-pets-tenth-seed0"
    assert len(made.labelled()) == 12
    assert build.resolve(run).labels == str(tmp_path / "tenth.txt")
    assert main(["fit", "--resume", str(made.path)]) == 0
    capsys.readouterr()
