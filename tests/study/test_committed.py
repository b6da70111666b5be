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


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_figures_in_documents_are_those_of_the_tables(page):
    """Wherever a page has accuracy / ECE with their errors, or a difference with its interval."""
    tables = "".join(path.read_text() for path in RESULTS.glob("*-laptop.md"))
    text = (ROOT / page).read_text().replace("−", "-")
    means = re.findall(r"(\d+\.\d) ?%? ± (\d+\.\d) ?% / (0\.\d{3})(?: ± (0\.\d{3}))?", text)
    differences = re.findall(r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\] \d/\d", text)
    assert len(means) >= 15
    for accuracy, error, ece, its in means:
        assert f"{accuracy}% ± {error}% / {ece} ± {its}" in tables
    assert [one for one in differences if one not in tables] == []


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
