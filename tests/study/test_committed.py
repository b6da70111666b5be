"""The tables in results/ are what the runs beside them say."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from surelabel.cli import main

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-laptop.md")), ids=lambda path: path.stem)
def test_a_committed_table_is_what_its_runs_say(path, tmp_path, capsys):
    pytest.importorskip("optuna", reason="the extra `study` is not installed")
    shutil.copytree(RESULTS / "runs", tmp_path / "results" / "runs")
    assert main(["study", path.stem.removesuffix("-laptop"), "--tables", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert (tmp_path / "results" / path.name).read_text() == path.read_text()


def test_a_finished_study_called_again_says_what_the_guide_shows(tmp_path, capsys):
    """With the committed results, and without data or run folders."""
    pytest.importorskip("optuna", reason="the extra `study` is not installed")
    guide = (ROOT / "docs" / "studies.md").read_text()
    command, shown = re.search(r"```\nsurelabel ([^\n]*)\n```\n[^`]*```\n([^`]*)```", guide).groups()
    shutil.copytree(RESULTS / "runs", tmp_path / "results" / "runs")
    assert main([*shlex.split(command), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "finished, 0 to do" in shown
    assert said.startswith(f"{shown}\n## ")
    assert said.splitlines()[-1].startswith(f"In {tmp_path / 'results'}")
    assert not (tmp_path / "runs" / "study").exists()
