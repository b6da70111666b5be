"""The studies are what the paper has, and each of their runs is a valid one."""

import re
from collections import Counter
from pathlib import Path

import pytest

from surelabel.config.recipes import recipe
from surelabel.config.validate import validate
from surelabel.studies import paper_tables as printed
from surelabel.studies.catalogue import STUDIES, find
from surelabel.studies.plan import SCALES, job_key, jobs_of
from surelabel.utils.errors import UserError

NAMES = (
    "table1", "imagenet", "long-tail", "phc", "fm-ema", "sigma-ablation", "temperature", "samples", "momentum",
    "swa-onset", "threshold-sweep", "paws-sweep", "curves", "paws-curves", "classwise", "schedules", "lt-data",
    "phc-data", "cost", "bam-settings", "bam-parts", "features",
)  # fmt: skip


def cells_of(name, scale):
    return STUDIES[name].cells(scale)


def test_every_table_and_figure_has_its_study():
    assert set(STUDIES) == set(NAMES)
    places = " ".join(study.place for study in STUDIES.values())
    assert [f"Table {number} " in places for number in range(1, 11)] == [True] * 10
    assert [bool(re.search(rf"Figure {number}\D", places)) for number in range(1, 8)] == [True] * 7


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_is_valid_and_every_row_in_its_place(name, scale):
    study = STUDIES[name]
    cells = study.cells(scale)
    assert len({(cell.row, cell.column) for cell in cells}) == len(cells)
    for job in jobs_of(cells):
        validate(job.run)
        assert job.run.threads == (1 if scale == "laptop" else None)
    assert not study.rows or set(study.rows) == {cell.row for cell in cells}


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_compared_stand_side_by_side_at_some_scale(name):
    places = {(scale, cell.column): set() for scale in SCALES for cell in cells_of(name, scale)}
    for scale in SCALES:
        for cell in cells_of(name, scale):
            places[scale, cell.column].add(cell.row)
    for pair in STUDIES[name].pairs:
        assert any(rows >= set(pair) for rows in places.values()), pair
    assert all(STUDIES[name].base in (None, *rows) for rows in places.values())


@pytest.mark.parametrize("name", [name for name in NAMES if STUDIES[name].settings])
def test_a_study_of_settings_compares_every_row_with_another(name):
    rows = [cell.row for cell in cells_of(name, "laptop")]
    assert set(rows) <= {row for pair in STUDIES[name].compared(rows) for row in pair}


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_changed_of_bam_fixmatch_is_compared_with_it_as_it_is(scale):
    changed = {cell.row for cell in cells_of("bam-settings", scale) if cell.row.startswith("BAM-FM,")}
    assert changed <= {other for _, other in STUDIES["bam-settings"].pairs}


@pytest.mark.parametrize("scale", SCALES)
def test_cells_of_a_study_are_different_runs(scale):
    """All labels are the same run whatever share the column is about, and nothing else is shared within a study."""
    for name in NAMES:
        cells = [cell for cell in cells_of(name, scale) if cell.row != "supervised, all labels"]
        keys = Counter(job_key(job) for cell in cells for _, job in cell.choices)
        assert set(keys.values()) <= {1}, name


def test_the_first_table_on_a_laptop_goes_in_the_order_of_what_matters():
    jobs = jobs_of(cells_of("table1", "laptop"))
    beginning, middle = 5 * (4 * 5 + 3), 3 * (4 * 5 + 3 * 2)
    first = jobs[
        :beginning
    ]  # five seeds of five methods, and of the supervised one in strong views but for the crystals
    assert {job.run.method for job in first} == {"supervised", "fixmatch", "bam-fixmatch", "uda", "bam-uda"}
    assert {(job.run.data, job.run.labels) for job in first} == {
        ("fashion-mnist", 40), ("cifar10", 250), ("phc", "10%"), ("cifar10-lt100", "10%"),
    }  # fmt: skip
    assert [job.run.seed for job in first] == sorted(job.run.seed for job in first)
    # Three seeds of four more methods, one of them with two choices; of another two but for the crystals.
    then = jobs[beginning : beginning + middle]
    assert {job.run.method for job in then} == {
        "pseudo-label", "bam-pseudo-label", "paws", "bam-paws", "paws+swa", "paws+ema",
    }  # fmt: skip
    assert {(job.run.data, job.run.labels) for job in jobs[beginning + middle :]} == {
        ("fashion-mnist", 400), ("cifar10", 2500), ("phc", "1%"), ("cifar10-lt10", "10%"),
    }  # fmt: skip


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_compared_is_the_warm_up_that_the_recipe_has(scale):
    """The better of two, chosen on the test set, would be compared with the only one of the other method."""
    found = [cell for cell in cells_of("table1", scale) if cell.row == "BAM-PAWS"]
    assert found
    for cell in found:
        run = dict(cell.choices)[cell.compared].run
        assert run.head.kl_warmup == recipe("bam-paws", run.data, run.labels, scale).head.kl_warmup


@pytest.mark.parametrize("scale", SCALES)
def test_studies_share_the_runs_that_they_have_in_common(scale):
    table = {job_key(job) for job in jobs_of(cells_of("table1", scale))}
    for name, row in (("curves", "BAM-UDA"), ("fm-ema", "FM"), ("sigma-ablation", "UDA (t = 0.4)"), ("samples", "50"),
                      ("temperature", "0.9")):  # fmt: skip
        cell = next(cell for cell in cells_of(name, scale) if cell.row == row and cell.column != "CIFAR-10-40")
        assert job_key(cell.choices[0][1]) in table, name


def test_the_papers_figures_are_read_as_printed():
    table = printed.read(printed.TABLE_1)
    assert (table["uda", "cifar100-400"].accuracy, table["bam-uda", "cifar100-400"].ece) == (44.0, "0.310")
    assert printed.read(printed.TABLE_3)["fixmatch", "cifar10-lt-100"].ece == "0.26"
    assert ("bam-pseudo-label", "cifar10-250") not in table
    assert printed.read(printed.TABLE_3)["all-labels", "cifar10-lt-10"].ece is None
    known = [
        value
        for name in vars(printed)
        if name.startswith("TABLE")
        for value in printed.read(getattr(printed, name)).values()
    ]
    assert len(known) == 47 + 3 + 12 + 6 + 12 + 8 + 4 + 4 + 9
    assert all(20 < value.accuracy < 100 and (value.ece is None or 0.03 < float(value.ece) < 0.6) for value in known)


@pytest.mark.parametrize("scale", SCALES)
def test_a_figure_of_another_benchmark_says_so(scale):
    for name in NAMES:
        for cell in cells_of(name, scale):
            if cell.printed and cell.printed.on:
                assert scale == "laptop"
                assert cell.printed.on != cell.column
    one = cells_of("temperature", scale)[0].printed
    assert one.on == ("" if scale == "paper" else "CIFAR-100-400")


def test_a_mistyped_name_is_corrected():
    with pytest.raises(UserError, match="Did you mean 'table1'"):
        find("tabel1")


def test_the_documents_explain_every_study():
    text = Path(__file__).parents[2].joinpath("docs", "studies.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []
