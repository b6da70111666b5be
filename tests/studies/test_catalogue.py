import re
from collections import Counter
from pathlib import Path

import pytest

from surelabel.config.recipes import recipe
from surelabel.config.validate import validate
from surelabel.studies import paper_tables
from surelabel.studies.catalogue import STUDIES
from surelabel.studies.plan import SCALES, job_key, jobs_of

NAMES = (
    "table1", "imagenet", "long-tail", "phc", "fm-ema", "sigma-ablation", "temperature", "samples", "momentum",
    "swa-onset", "threshold-sweep", "paws-sweep", "curves", "paws-curves", "classwise", "schedules", "lt-data",
    "phc-data", "cost", "bam-settings", "bam-parts", "features",
)  # fmt: skip


def cells_of(name, scale):
    return STUDIES[name].cells(scale)


def test_studies_cover_every_table_and_figure():
    assert set(STUDIES) == set(NAMES)
    places = " ".join(study.place for study in STUDIES.values())
    assert [f"Table {number} " in places for number in range(1, 11)] == [True] * 10
    assert [bool(re.search(rf"Figure {number}\D", places)) for number in range(1, 8)] == [True] * 7


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_studies_have_valid_runs_and_all_their_rows(name, scale):
    study = STUDIES[name]
    cells = study.cells(scale)
    assert len({(cell.row, cell.column) for cell in cells}) == len(cells)
    for job in jobs_of(cells):
        validate(job.config)
        assert job.config.threads == (1 if scale == "laptop" else None)
    assert not study.rows or set(study.rows) == {cell.row for cell in cells}


@pytest.mark.parametrize("name", NAMES)
def test_compared_rows_share_a_column_at_some_scale(name):
    places = {(scale, cell.column): set() for scale in SCALES for cell in cells_of(name, scale)}
    for scale in SCALES:
        for cell in cells_of(name, scale):
            places[scale, cell.column].add(cell.row)
    for pair in STUDIES[name].pairs:
        assert any(rows >= set(pair) for rows in places.values()), pair
    assert all(STUDIES[name].base in (None, *rows) for rows in places.values())


@pytest.mark.parametrize("name", [name for name in NAMES if STUDIES[name].settings])
def test_settings_studies_compare_every_row(name):
    rows = [cell.row for cell in cells_of(name, "laptop")]
    assert set(rows) <= {row for pair in STUDIES[name].compared(rows) for row in pair}


@pytest.mark.parametrize("scale", SCALES)
def test_bam_settings_are_compared_with_bam_fixmatch(scale):
    changed = {cell.row for cell in cells_of("bam-settings", scale) if cell.row.startswith("BAM-FM,")}
    assert changed <= {other for _, other in STUDIES["bam-settings"].pairs}


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_cells_of_a_study_have_different_runs(scale):
    """Only the run with all labels may appear in several columns."""
    for name in NAMES:
        cells = [cell for cell in cells_of(name, scale) if cell.row != "supervised, all labels"]
        keys = Counter(job_key(job) for cell in cells for _, job in cell.choices)
        assert set(keys.values()) <= {1}, name


def test_table1_laptop_runs_what_matters_first():
    jobs = jobs_of(cells_of("table1", "laptop"))
    beginning, middle = 5 * (4 * 5 + 3), 3 * (4 * 5 + 3 * 2)
    # Five seeds of five methods, and of supervised in strong views except on crystals.
    first = jobs[:beginning]
    assert {job.config.method for job in first} == {"supervised", "fixmatch", "bam-fixmatch", "uda", "bam-uda"}
    assert {(job.config.data, job.config.labels) for job in first} == {
        ("fashion-mnist", 40), ("cifar10", 250), ("phc", "10%"), ("cifar10-lt100", "10%"),
    }  # fmt: skip
    assert [job.config.seed for job in first] == sorted(job.config.seed for job in first)
    # Three seeds of four more methods, one with two choices; of two others except on crystals.
    then = jobs[beginning : beginning + middle]
    assert {job.config.method for job in then} == {
        "pseudo-label", "bam-pseudo-label", "paws", "bam-paws", "paws+swa", "paws+ema",
    }  # fmt: skip
    assert {(job.config.data, job.config.labels) for job in jobs[beginning + middle :]} == {
        ("fashion-mnist", 400), ("cifar10", 2500), ("phc", "1%"), ("cifar10-lt10", "10%"),
    }  # fmt: skip


@pytest.mark.parametrize("scale", SCALES)
def test_bam_paws_is_compared_with_the_recipes_warm_up(scale):
    """Not with the better of two, chosen on the test set: the other method has only one."""
    found = [cell for cell in cells_of("table1", scale) if cell.row == "BAM-PAWS"]
    assert found
    for cell in found:
        run = dict(cell.choices)[cell.compared].config
        assert run.head.kl_warmup == recipe("bam-paws", run.data, run.labels, scale).head.kl_warmup


@pytest.mark.parametrize("scale", SCALES)
def test_studies_share_common_runs(scale):
    table = {job_key(job) for job in jobs_of(cells_of("table1", scale))}
    for name, row in (("curves", "BAM-UDA"), ("fm-ema", "FM"), ("sigma-ablation", "UDA (t = 0.4)"), ("samples", "50"),
                      ("temperature", "0.9")):  # fmt: skip
        cell = next(cell for cell in cells_of(name, scale) if cell.row == row and cell.column != "CIFAR-10-40")
        assert job_key(cell.choices[0][1]) in table, name


def test_paper_tables_are_read_as_printed():
    table = paper_tables.read(paper_tables.TABLE_1)
    assert (table["uda", "cifar100-400"].accuracy, table["bam-uda", "cifar100-400"].ece) == (44.0, "0.310")
    assert paper_tables.read(paper_tables.TABLE_3)["fixmatch", "cifar10-lt-100"].ece == "0.26"
    assert ("bam-pseudo-label", "cifar10-250") not in table
    assert paper_tables.read(paper_tables.TABLE_3)["all-labels", "cifar10-lt-10"].ece is None
    known = [
        value
        for name in vars(paper_tables)
        if name.startswith("TABLE")
        for value in paper_tables.read(getattr(paper_tables, name)).values()
    ]
    assert len(known) == 47 + 3 + 12 + 6 + 12 + 8 + 4 + 4 + 9
    assert all(20 < value.accuracy < 100 and (value.ece is None or 0.03 < float(value.ece) < 0.6) for value in known)


@pytest.mark.parametrize("scale", SCALES)
def test_printed_values_name_another_benchmark(scale):
    for name in NAMES:
        for cell in cells_of(name, scale):
            if cell.printed and cell.printed.on:
                assert scale == "laptop"
                assert cell.printed.on != cell.column
    one = cells_of("temperature", scale)[0].printed
    assert one.on == ("" if scale == "paper" else "CIFAR-100-400")


def test_docs_explain_every_study():
    text = Path(__file__).parents[2].joinpath("docs", "studies.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []
