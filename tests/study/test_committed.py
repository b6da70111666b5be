"""The tables in results/ are what the runs beside them say."""

import shutil
from pathlib import Path

import pytest

from surelabel.cli import main

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-laptop.md")), ids=lambda path: path.stem)
def test_a_committed_table_is_what_its_runs_say(path, tmp_path, capsys):
    pytest.importorskip("optuna", reason="the extra `study` is not installed")
    shutil.copytree(RESULTS / "runs", tmp_path / "results" / "runs")
    assert main(["study", path.stem.removesuffix("-laptop"), "--tables", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert (tmp_path / "results" / path.name).read_text() == path.read_text()
