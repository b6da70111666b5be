"""Outputs that would overwrite inputs."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.config.settings import write_yaml
from surelabel.inference.outputs import check_output
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from tests.helpers.images import picture, write_files
from tests.helpers.runs import fit_folder
from tests.helpers.tables import table_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a table, in a folder of its own; its path, and all that a command may not change."""
    root = tmp_path_factory.mktemp("outputs")
    rows = [f"{x},{x * x},{'ab'[x % 2]}" for x in range(40)]
    (root / "table.csv").write_text("\n".join(["x,z,label", *rows]))
    (root / "more.csv").write_text("sample,label\n1,b\n")
    labels = str(root / "more.csv")
    return fit_folder(table_run(root / "table.csv", root / "run", labels=labels)).path


COMMANDS = {
    "predict": ["predict", "{run}", "{root}/table.csv", "-o"],
    "suggest": ["suggest", "{run}", "-o"],
    "report": ["report", "{run}", "-o"],
    "export": ["export", "{run}", "--onnx"],
}


def spellings(path, place):
    """Other names of a file."""
    link, hard = place / "link", place / "hard"
    link.symlink_to(path)
    os.link(path, hard)
    return [path, path.parent / "run" / ".." / path.name, link, hard]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["table.csv", "more.csv"])
def test_output_that_is_an_input_is_refused(command, name, run, tmp_path, capsys):
    root = run.parent
    before = (root / name).read_bytes()
    for out in spellings(root / name, tmp_path):
        words = [word.format(run=run, root=root) for word in COMMANDS[command]]
        assert main([*words, str(out)]) == 2
        assert f"{out} is {root / name}, which is read" in capsys.readouterr().err
        assert (root / name).read_bytes() == before


@pytest.mark.parametrize("name", ["config.yaml", "weights.safetensors", "split.json", "new"])
def test_run_folder_takes_results_only(name, run):
    with pytest.raises(UserError, match=name):
        check_output(run / name, [load(run)])
    check_output(run / "predictions.csv", [load(run)])


def test_held_out_table_is_an_input(run, tmp_path):
    held_out = tmp_path / "held.csv"
    held_out.touch()
    with pytest.raises(UserError, match=r"held\.csv"):
        check_output(held_out, [load(run)], "phc", str(held_out))


def test_folder_of_pictures_takes_nothing_that_would_be_data(run, tmp_path, monkeypatch):
    write_files(tmp_path / "pictures", {"a/1.png": picture(1)})
    pictures = str(tmp_path / "pictures")
    for name in ("a/1.png", "a/2.png", "labels.csv", "Labels.csv", "x.tar"):
        with pytest.raises(UserError, match=name):
            check_output(Path(pictures, name), [load(run)], pictures)
    monkeypatch.chdir(tmp_path / "pictures")
    with pytest.raises(UserError, match=r"labels\.csv"):
        check_output("labels.csv", [load(run)], ".")
    check_output("out.csv", [load(run)], ".")
    check_output("../labels.csv", [load(run)], ".")


def test_labels_beside_an_array_are_an_input(tmp_path, tiny):
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    np.save(tmp_path / "x.labels.npy", np.zeros(2))
    write_yaml(replace(tiny, data=str(tmp_path / "x.npy")), tmp_path / "run" / "config.yaml")
    with pytest.raises(UserError, match=r"x\.labels\.npy"):
        check_output(tmp_path / "x.labels.npy", [load(tmp_path / "run")])
