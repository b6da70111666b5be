import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from surelabel.config import Run, Selection
from surelabel.settings import write_yaml
from tools import results_table

KEYS = ("accuracy", "ece", "nll", "purity", "acceptance")
# One row of figures for each seed.
BASE = np.array([[0.61, 0.30, 2.0, 0.7, 0.8], [0.66, 0.25, 1.9, 0.8, 0.8], [0.64, 0.20, 2.1, 0.9, 0.7]])
OTHER = np.array([[0.65, 0.20, 1.5, 0.6, 0.9], [0.67, 0.27, 1.8, 0.7, 0.9], [0.69, 0.10, 1.9, 0.9, 0.9]])


@pytest.fixture
def make(tmp_path):
    """Makes a finished run's folder and gives its path."""

    def made(method, seed, figures, split=None, lacking=(), **settings):
        folder = tmp_path / f"{method}-{seed}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        write_yaml(replace(Run(method=method, seed=seed, out=str(folder)), **settings), folder / "config.yaml")
        lines = (folder / "config.yaml").read_text().splitlines(keepends=True)
        (folder / "config.yaml").write_text("".join(line for line in lines if not line.startswith(lacking or ("#",))))
        found = dict(zip(KEYS, figures, strict=True))
        pool = {key: found.pop(key) for key in ("purity", "acceptance")}
        (folder / "result.json").write_text(json.dumps({"averaged": found, "raw": dict.fromkeys(found, 0)}))
        (folder / "metrics.jsonl").write_text(
            json.dumps({"purity": 0.0, "acceptance": 0.0}) + "\n" + json.dumps(pool) + "\n"
        )
        (folder / "split.json").write_text(json.dumps({"labelled": split or [seed]}))
        return str(folder)

    return made


@pytest.fixture
def shown(capsys):
    """Runs the tool; gives the table as one dictionary for each row, and what went to stderr."""

    def called(*arguments):
        results_table.main(list(arguments))
        out, err = capsys.readouterr()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in out.splitlines() if line.startswith("|")]
        return [dict(zip(cells[0], line, strict=True)) for line in cells[2:]], err

    return called


def test_rows_are_means_and_standard_errors_over_seeds(make, shown):
    rows, err = shown(*(make("uda", seed, figures) for seed, figures in enumerate(BASE)))
    assert err == ""
    (row,) = rows
    errors = stats.sem(BASE)
    assert row["seeds"] == "3"
    assert row["accuracy"] == f"{BASE[:, 0].mean():.1%} ± {errors[0]:.1%}"
    assert row["ECE"] == f"{BASE[:, 1].mean():.3f} ± {errors[1]:.3f}"
    assert row["NLL"] == f"{BASE[:, 2].mean():.2f} ± {errors[2]:.2f}"
    assert row["purity"] == f"{BASE[:, 3].mean():.0%} ± {errors[3]:.0%}"
    assert "steps" not in row


def test_settings_in_which_rows_of_a_method_differ_have_a_column(make, shown):
    rows, _ = shown(
        make("uda", 0, BASE[0], steps=100), make("uda", 0, BASE[0], steps=200), make("uda", 1, BASE[1], steps=300)
    )
    assert sorted((row["steps"], row["seeds"]) for row in rows) == [("100", "1"), ("200", "1"), ("300", "1")]


def test_a_setting_that_an_older_run_lacks_tells_it_apart_only_where_it_could_be_either(make, shown):
    older = make("uda", 0, BASE[0], lacking=("fidelity", "forward"))
    rows, _ = shown(older, make("uda", 1, BASE[1], forward="split"))
    assert [row["seeds"] for row in rows] == ["2"]
    rows, _ = shown(older, make("uda", 1, BASE[1], forward="split"), make("uda", 2, BASE[2], forward="joint"))
    assert {row["forward"]: row["seeds"] for row in rows} == {"split": "1", "joint": "1", "–": "1"}


def test_one_seed_run_twice_counts_once_and_an_unfinished_run_not_at_all(make, shown, tmp_path):
    first, again = make("uda", 0, BASE[0]), make("uda", 0, BASE[1])
    rows, err = shown(first, again, str(tmp_path / "none"))
    assert [row["accuracy"] for row in rows] == ["61.0%"]
    assert f"{again} is left out: {first}" in err
    assert "none is not finished" in err


@pytest.mark.parametrize("arguments", [["--paired"], ["--pair", "uda:bam-uda"]])
def test_paired_differences_have_the_interval_of_scipys_paired_t_test(make, shown, arguments):
    runs = [
        make(method, seed, row)
        for method, table in (("bam-uda", OTHER), ("uda", BASE))
        for seed, row in enumerate(table)
    ]
    rows, err = shown(*arguments, *runs)
    assert err == ""
    (row,) = rows
    assert (row["method"], row["seeds"]) == ("bam-uda − uda", "3")
    better = {"accuracy, points": "3/3", "ECE": "2/3", "NLL": "3/3", "purity, points": "0/3"}
    for column, (heading, improved) in enumerate(better.items()):
        scale, form = (100, "{:+.1f}") if "points" in heading else (1, "{:+.3f}")
        base, other = scale * BASE[:, column], scale * OTHER[:, column]
        low, high = stats.ttest_rel(other, base).confidence_interval(0.95)
        numbers = [form.format(number) for number in ((other - base).mean(), low, high)]
        assert row[heading] == "{} [{}, {}] {}".format(*numbers, improved)


def test_the_caption_states_the_level_and_how_the_interval_is_made(make, capsys):
    results_table.main(["--paired", make("uda", 0, BASE[0]), make("bam-uda", 0, OTHER[0])])
    assert "95% confidence interval by Student's t" in capsys.readouterr().out.splitlines()[0]


def test_seeds_are_joined_by_number_and_those_on_one_side_are_named(make, shown):
    runs = [make("uda", seed, BASE[place]) for place, seed in enumerate((7, 8, 9))]
    runs += [make("bam-uda", seed, OTHER[place]) for place, seed in enumerate((9, 4, 7))]
    rows, err = shown("--paired", *runs)
    (row,) = rows
    expected = 100 * np.array([OTHER[0, 0] - BASE[2, 0], OTHER[2, 0] - BASE[0, 0]])
    assert row["seeds"] == "2"
    assert row["accuracy, points"].startswith(f"{expected.mean():+.1f} [")
    assert "bam-uda has no seed 8" in err
    assert "\nuda has no seed 4" in err


def test_a_single_common_seed_gives_no_interval_and_no_figure_a_dash(make, shown):
    nothing = [0.5, 0.2, 1.0, None, None]
    rows, _ = shown("--pair", "supervised:uda", make("supervised", 0, nothing), make("uda", 0, BASE[0]))
    assert (rows[0]["accuracy, points"], rows[0]["purity, points"]) == ("+11.0 1/1", "–")


@pytest.mark.parametrize(
    "settings", [{"data": "cifar10"}, {"labels": 80}, {"steps": 77}, {"forward": "joint"}], ids=lambda s: next(iter(s))
)
def test_runs_that_differ_in_more_than_the_method_are_not_compared(make, shown, settings):
    rows, err = shown("--paired", make("uda", 0, BASE[0]), make("bam-uda", 0, OTHER[0], **settings))
    ((key, value),) = settings.items()
    assert rows == []
    assert f"not compared, the nearest bam-uda differs in {key} ({getattr(Run(), key)}, {value})" in err


def test_a_seed_with_other_labelled_samples_is_left_out(make, shown):
    runs = [make("uda", seed, BASE[seed]) for seed in (0, 1)]
    runs += [make("bam-uda", 0, OTHER[0]), make("bam-uda", 1, OTHER[1], split=[5])]
    rows, err = shown("--paired", *runs)
    assert rows[0]["seeds"] == "1"
    assert "seed 1 is left out" in err


def test_variants_of_a_method_are_each_compared_and_told_apart(make, shown):
    variants = [make("bam-uda", 0, OTHER[0], selection=Selection(warmup=warmup)) for warmup in (0.1, 0.5)]
    rows, err = shown("--paired", make("uda", 0, BASE[0], selection=Selection(warmup=0.1)), *variants)
    assert err == ""
    assert [row["selection.warmup"] for row in rows] == ["0.1", "0.1, 0.5"]


def test_what_cannot_be_compared_is_said(make, shown, capsys):
    run = make("uda", 0, BASE[0])
    assert "no method bam-M" in shown("--paired", run)[1]
    assert "no finished run of fixmatch" in shown("--pair", "uda:fixmatch", run)[1]
    with pytest.raises(SystemExit):
        results_table.main(["--pair", "uda", run])
    assert "--pair needs two methods" in capsys.readouterr().err
