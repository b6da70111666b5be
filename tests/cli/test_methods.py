from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--method fixmatch --selection.decay 0.9", "--selection.decay has no effect on this run (fixmatch)"),
        ("--method fixmatch --align.prior labels", "--align.prior has no effect on this run (fixmatch)"),
        ("--method softmatch --align.queue 100", "--align.queue has no effect on this run (softmatch)"),
        ("--method supervised --align.rule mean", "--align.rule has no effect on this run (supervised)"),
        ("--method bam-flexmatch --selection.quantile 0.5", "--selection.quantile has no effect"),
        ("--method flexmatch --head.samples 5", "--head.samples has no effect"),
        ("--method debiaspl --align.rule none", "align.rule none does not go with DebiasPL"),
        ("--method softmatch --align.rule debias", "align.rule cannot be 'debias'"),
        ("--method uda --align.rule mean --align.prior 0.5,0.6", "must sum to 1"),
    ],
)
def test_settings_that_a_method_does_not_read_are_refused(words, says, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["fit", "phc", *words.split(), "--steps", "1", "--out", str(out)]) == 2
    assert says in capsys.readouterr().err
    assert not out.exists()
