import re
import shlex
import shutil
from pathlib import Path

import pytest

from surelabel.cli.main import main
from surelabel.studies.trust_table import write_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-laptop.md")), ids=lambda path: path.stem)
def test_committed_tables_follow_from_the_records(path, tmp_path, capsys):
    pytest.importorskip("optuna", reason="the extra `study` is not installed")
    shutil.copytree(RESULTS / "runs", tmp_path / "results" / "runs")
    assert main(["study", path.stem.removesuffix("-laptop"), "--tables", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert (tmp_path / "results" / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_numbers_in_docs_are_in_the_tables(page):
    """Accuracy / ECE with standard errors, and differences with intervals."""
    tables = "".join(path.read_text() for path in RESULTS.glob("*-laptop.md"))
    text = (ROOT / page).read_text().replace("−", "-")
    means = re.findall(r"(\d+\.\d) ?%? ± (\d+\.\d) ?% / (0\.\d{3})(?: ± (0\.\d{3}))?", text)
    differences = re.findall(r"[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\] \d/\d", text)
    assert len(means) >= 15
    for accuracy, error, ece, its in means:
        assert f"{accuracy}% ± {error}% / {ece} ± {its}" in tables
    assert [one for one in differences if one not in tables] == []


# Names in the docs -> in the tables.
SPELLING = {
    "Pseudo-Label": "PL", "FixMatch": "FM", "supervised, weak views": "supervised",
    "photonic crystals, 10 % of the labels": "PhC-10%", "Fashion-MNIST, 40 labels": "Fashion-MNIST-40",
    "CIFAR-10, 250 labels": "CIFAR-10-250", "long-tailed CIFAR-10 (α = 100), 10 %": "CIFAR-10-LT, α = 100",
}  # fmt: skip
MEAN = re.compile(r"(\d+\.\d) ?%?(?: ± (\d+\.\d) ?%)? / (0\.\d{3})")


def tables_of(text):
    """The rows of each Markdown table, as lists of cells; the heading first."""
    for name, short in SPELLING.items():
        text = text.replace(name, short)
    for lines in re.findall(r"(?:^\|.*\n)+", text.replace("−", "-").replace("**", ""), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines.splitlines()]
        yield [rows[0], *rows[2:]]


def attributed(text):
    """Accuracy and ECE by method and data; differences by data, methods and metric."""
    for heading, *rows in tables_of(text):
        for row in rows:
            for name, cell in zip(heading, row, strict=True):
                if heading[0] in ("method", "accuracy / ECE") and (mean := MEAN.match(cell)):
                    yield frozenset([row[0], re.sub(r" \(\d seeds?\)$", "", name)]), mean.groups()
                if heading[:2] == ["data", "difference"] and re.match(r"[+-]\d", cell):
                    yield (row[0], row[1], name), cell


@pytest.mark.parametrize(("page", "least"), [("README.md", 19), ("docs/results.md", 150)])
def test_numbers_in_docs_have_the_right_method_and_data(page, least):
    known = {one for path in RESULTS.glob("*-laptop.md") for one in attributed(path.read_text())}
    said = list(attributed((ROOT / page).read_text()))
    assert len(said) >= least
    assert [one for one in said if one not in known] == []


def test_table_of_trust_follows_from_its_records_and_the_readme_from_it(tmp_path):
    shutil.copy(RESULTS / "trust.jsonl", tmp_path)
    table = write_table(tmp_path)
    assert table == (RESULTS / "trust.md").read_text()
    shown = re.search(r"\| features, labels \| `sure`.*?\n\n", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    pairs = re.findall(r"\d+\.\d / 0\.\d{3}", shown)
    assert len(pairs) >= 40
    assert [pair for pair in pairs if pair not in table] == []


@pytest.mark.slow
def test_finished_study_prints_what_the_guide_shows(tmp_path, capsys):
    """With the committed records, without data or run folders."""
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
