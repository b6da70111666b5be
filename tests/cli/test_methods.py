from pathlib import Path

from surelabel.cli.main import main
from surelabel.config.methods import METHODS
from surelabel.config.papers import WHAT, described

PAGE = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()


def test_methods_lists_all_with_year_and_paper(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(METHODS)
    for line in lines:
        what, paper = described(line.split()[0])
        assert what in line
        assert paper is None or (str(paper.year) in line and paper.authors in line)
    assert [name for name in METHODS if described(name)[1] is None] == ["sure", "supervised"]


def test_every_description_is_of_a_method():
    assert set(WHAT) <= set(METHODS)


def test_page_has_the_parts_of_every_method():
    """Those with a Bayesian head and a rule of their own are one row."""
    named = {name for name in WHAT if name not in ("sure", "paws", "bam-paws", "bam-uda-no-sigma")}
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for name in named if not any(f"`{name}`" in row for row in rows)} == set()


def test_methods_that_the_page_lists_have_short_files():
    source = Path(__file__).parents[2] / "src" / "surelabel" / "methods"
    for target in METHODS.values():
        name = target.partition(":")[0].rpartition(".")[2]
        if name not in ("sure", "paws"):
            assert len((source / f"{name}.py").read_text().splitlines()) < 80, name
