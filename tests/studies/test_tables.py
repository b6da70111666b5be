import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from surelabel.config.recipes import recipe
from surelabel.studies import charts, page
from surelabel.studies.layout import lay_out
from surelabel.studies.plan import Cell, Job, Printed, Study, changed, job_key
from surelabel.studies.tables import Table, correlation_table, cost_table, group_table, main_table, pair_table, reached

ACCURACY = {"FM": [0.60, 0.66, 0.63], "BAM-UDA": [0.64, 0.65, 0.69]}
ECE = {"FM": [0.30, 0.25, 0.20], "BAM-UDA": [0.20, 0.27, 0.10]}
RUNS = {"FM": recipe("fixmatch", "cifar10-lt100", "10%"), "BAM-UDA": recipe("bam-uda", "cifar10-lt100", "10%")}


def record(seed, accuracy, ece, split="s", seconds=0.1, **more):
    history = [
        {"step": step, "accuracy": accuracy * step / 40, "ece": ece, "nll": 1.0, "purity": None if step == 10 else 0.7,
         "acceptance": 0.5, "pool_confidence": 0.9}
        for step in (10, 20, 30, 40)
    ]  # fmt: skip
    summary = {"around_best_median_accuracy": accuracy, "converged_ece": ece, "mean_ece_until_converged": ece / 2}
    groups = {
        "many": {"accuracy": accuracy, "count": 8, "classes": 8},
        "medium": {"accuracy": ece, "count": 2, "classes": 2},
    }
    return {
        "seed": seed, "final": {"accuracy": accuracy, "ece": ece, "nll": 1.0, "confidence": 0.75}, "summary": summary,
        "history": history,
        "split": split, "groups": groups, "seconds": 60, "seconds_a_step": seconds, "config": {},
    } | more  # fmt: skip


@pytest.fixture
def study():
    cells = [
        Cell(row, "LT", (("", Job(run)),), 3, Printed(70.0, "0.26") if row == "FM" else None)
        for row, run in RUNS.items()
    ]
    return Study("made-up", "what", "Table 0", lambda scale: cells, pairs=(("FM", "BAM-UDA"),), shows="groups")


@pytest.fixture
def records():
    return {
        job_key(Job(run).seeded(seed)): record(
            seed, ACCURACY[row][seed], ECE[row][seed], seconds=0.1 + 0.01 * (row != "FM")
        )
        for row, run in RUNS.items()
        for seed in range(3)
    }


@pytest.fixture
def layout(study, records):
    return lay_out(study, study.cells("laptop"), records)


def by_title(tables):
    return {table.title: table for table in tables}


def test_main_table_shows_ours_beside_the_papers(study, layout):
    table = main_table(study, layout)
    assert list(table.headings) == ["method", "LT", "paper"]
    values, eces = ACCURACY["FM"], ECE["FM"]
    ours = f"{np.mean(values):.1%} ± {stats.sem(values):.1%} / {np.mean(eces):.3f} ± {stats.sem(eces):.3f}"
    assert table.rows == [["FM", ours, "70.0% / 0.26"], ["BAM-UDA", table.rows[1][1], ""]]


def test_main_table_marks_missing_runs_and_single_seeds(study, records):
    some = {key: value for key, value in records.items() if value["seed"] == 0 and value["final"]["accuracy"] == 0.60}
    rows = main_table(study, lay_out(study, study.cells("laptop"), some)).rows
    assert [row[1] for row in rows] == ["60.0% / 0.300", "not run"]


def test_pair_table_equals_scipys_paired_t_test(study, layout):
    (row,) = pair_table(study, layout).rows
    low, high = stats.ttest_rel(ACCURACY["BAM-UDA"], ACCURACY["FM"]).confidence_interval(0.95)
    mean = np.subtract(ACCURACY["BAM-UDA"], ACCURACY["FM"]).mean()
    assert row[:4] == ["LT", "BAM-UDA − FM", "3", f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] 2/3"]


def test_pair_table_skips_other_precisions(study, records):
    first, *_ = records
    mixed = records | {first: records[first] | {"machine": {"precision": "bf16-mixed"}}}
    (row,) = pair_table(study, lay_out(study, study.cells("laptop"), mixed)).rows
    assert row[2] == "2"


def test_pair_table_skips_other_labelled_samples(study, records):
    changed_split = {key: value | {"split": str(value["final"]["accuracy"])} for key, value in records.items()}
    assert pair_table(study, lay_out(study, study.cells("laptop"), changed_split)) is None


def test_lay_out_shows_the_best_choice_once_all_have_run():
    run = RUNS["FM"]
    slow = changed(run, {"optimizer.lr": 0.001})
    cell = Cell("FM", "LT", (("quick", Job(run)), ("slow", Job(slow))), 2)
    study = Study("made-up", "what", "Table 0")
    known = {job_key(Job(run).seeded(seed)): record(seed, 0.5, 0.1) for seed in (0, 1)}
    known |= {job_key(Job(slow).seeded(0)): record(0, 0.9, 0.1)}

    def found():
        return lay_out(study, [cell], known).cells["FM", "LT"]

    assert found().choice == "quick, others not run as often"
    known |= {job_key(Job(slow).seeded(1)): record(1, 0.2, 0.1)}
    assert found().choice == "slow"
    assert [held["final"]["accuracy"] for held in found().records.values()] == [0.9, 0.2]
    # Further seeds of one choice, from another study, do not decide.
    known |= {job_key(Job(run).seeded(seed)): record(seed, 0.99, 0.1) for seed in (2, 3, 4)}
    assert found().choice == "slow"
    assert len(found().records) == 2


def test_lay_out_compares_unfinished_choices_on_shared_seeds():
    run = RUNS["FM"]
    slow = changed(run, {"optimizer.lr": 0.001})
    cell = Cell("FM", "LT", (("quick", Job(run)), ("slow", Job(slow))), 3)
    quick = {0: 0.5, 1: 0.9}  # seed 1 is an easy one, seed 2 a hard one
    known = {job_key(Job(run).seeded(seed)): record(seed, value, 0.1) for seed, value in quick.items()}
    known |= {job_key(Job(slow).seeded(seed)): record(seed, value, 0.1) for seed, value in {0: 0.6, 2: 0.2}.items()}
    found = lay_out(Study("made-up", "what", "Table 0"), [cell], known).cells["FM", "LT"]
    assert found.choice == "slow, so far (2 of 3 seeds)"


def test_lay_out_takes_any_seed(study, records):
    many = records | {job_key(Job(RUNS["FM"]).seeded(10**12)): record(10**12, 0.6, 0.2)}
    assert len(lay_out(study, study.cells("laptop"), many).cells["FM", "LT"].records) == 4


def test_group_and_cost_tables(study, layout):
    many = ACCURACY["FM"]
    assert group_table(study, layout).rows[0][3] == f"{np.mean(many):.1%} ± {stats.sem(many):.1%}"
    assert group_table(study, layout).rows[0][5] == "–"
    (row,) = cost_table(study, layout).rows
    assert row[3:] == ["1.100 ± 0.000", "100%", "100%", "2 of 3"]
    assert reached(record(0, 0.8, 0.1), 0.4) == 0.5
    assert reached(record(0, 0.8, 0.1), 0.81) is None


def with_course(record, *accuracies):
    return record | {"history": [{"step": 10 * (n + 1), "accuracy": value} for n, value in enumerate(accuracies)]}


def test_cost_table_says_when_the_final_accuracy_is_reached(study, records):
    """The base gets there after 2, 3 and 2 of 4 evaluations; the other once after 1, twice never."""
    base = [(0.1, 0.6, 0.7, 0.6), (0.1, 0.2, 0.6, 0.6), (0.1, 0.6, 0.6, 0.6)]
    other = [(0.6, 0.1, 0.1, 0.1), (0.1, 0.1, 0.1, 0.5), (0.1, 0.1, 0.1, 0.5)]
    made = {}
    for row, courses in (("FM", base), ("BAM-UDA", other)):
        for seed, course in enumerate(courses):
            key = job_key(Job(RUNS[row]).seeded(seed))
            made[key] = with_course(records[key], *course)
    (row,) = cost_table(study, lay_out(study, study.cells("laptop"), made)).rows
    assert row[4:] == ["50%", "> 100%", "1 of 3"]


def test_cost_table_skips_different_devices(study, records):
    gpu, cpu = ({"device": device, "precision": "32", "compile": False} for device in ("cuda", "cpu"))
    keys = {(row, seed): job_key(Job(run).seeded(seed)) for row, run in RUNS.items() for seed in range(3)}
    made = dict(records)
    for (row, seed), machine in {("FM", 0): gpu, ("BAM-UDA", 0): cpu, ("FM", 1): gpu, ("BAM-UDA", 1): gpu}.items():
        key = keys[row, seed]
        made[key] = records[key] | {"machine": machine, "seconds_a_step": 1.0 if machine == gpu else 20.0}
    made[keys["BAM-UDA", 2]] = records[keys["BAM-UDA", 2]] | {"machine": cpu, "seconds_a_step": None}
    (row,) = cost_table(study, lay_out(study, study.cells("laptop"), made)).rows
    assert row[3] == "1.000"


def test_pair_table_uses_the_choice_set_beforehand():
    base, other = RUNS["FM"], RUNS["BAM-UDA"]
    won = changed(other, {"optimizer.lr": 0.001})
    cells = [
        Cell("FM", "LT", (("", Job(base)),), 2),
        Cell("BAM-UDA", "LT", (("preset", Job(other)), ("won", Job(won))), 2, compared="preset"),
    ]
    known = {job_key(Job(base).seeded(seed)): record(seed, 0.50, 0.1) for seed in (0, 1)}
    known |= {job_key(Job(other).seeded(seed)): record(seed, 0.51, 0.1) for seed in (0, 1)}
    known |= {job_key(Job(won).seeded(seed)): record(seed, 0.60, 0.1) for seed in (0, 1)}
    study = Study("made-up", "what", "Table 0", lambda scale: cells, pairs=(("FM", "BAM-UDA"),))
    layout = lay_out(study, cells, known)
    assert layout.cells["BAM-UDA", "LT"].choice == "won"
    table = pair_table(study, layout)
    assert table.rows[0][1:3] == ["BAM-UDA (preset) − FM", "2"]
    assert table.rows[0][3].startswith("+1.0 ")
    assert "does not account" not in table.caption
    free = [replace(cell, compared=None) for cell in cells]
    table = pair_table(study, lay_out(study, free, known))
    assert table.rows[0][1] == "BAM-UDA − FM"
    assert table.rows[0][3].startswith("+10.0 ")
    assert "does not account for that choice" in table.caption


def test_correlation_table_is_over_settings():
    cells, known, points = [], {}, []
    for number, threshold in enumerate((0.5, 0.6, 0.7, 0.8, 0.9)):
        job = Job(changed(RUNS["FM"], {"selection.threshold": threshold}))
        cells.append(Cell(str(threshold), "LT", (("", job),), 2))
        values = [(0.5 + number / 10 + seed / 100, 0.3 - number**2 / 100 + seed / 50) for seed in (0, 1)]
        known |= {job_key(job.seeded(seed)): record(seed, *values[seed]) for seed in (0, 1)}
        points.append(np.mean(values, axis=0))
    study = Study("sweep", "what", "Figure 0", lambda scale: cells, shows="correlation")
    made = lay_out(study, cells, known)
    (row,) = correlation_table(made).rows
    accuracy, ece = np.transpose(points)
    assert row[:3] == ["LT", "5", "2"]
    assert row[3].startswith(f"{stats.pearsonr(accuracy, ece).statistic:+.2f} [")
    assert row[4].startswith(f"{stats.spearmanr(accuracy, ece).statistic:+.2f} [")
    assert charts.draw(study, made) is not None
    assert correlation_table(lay_out(study, cells[:4], known)) is None


def test_correlation_table_uses_shared_seeds():
    cells, known = [], {}
    for number, threshold in enumerate((0.5, 0.6, 0.7, 0.8, 0.9)):
        job = Job(changed(RUNS["FM"], {"selection.threshold": threshold}))
        cells.append(Cell(str(threshold), "LT", (("", job),), 2))
        known[job_key(job.seeded(0))] = record(0, 0.5 + number / 10, 0.3)
        if number < 2:  # a hard seed
            known[job_key(job.seeded(1))] = record(1, 0.1, 0.9)
    sweep = Study("sweep", "what", "Figure 0", lambda scale: cells, settings=True)
    made = lay_out(sweep, cells, known)
    assert made.shared_seeds("LT") == [0]
    # With seed 0, ECE is constant.
    assert "Accuracy and calibration" not in by_title(page.tables_of(replace(sweep, shows="correlation"), made))


def test_main_table_shows_seeds_where_they_differ(study, records):
    one_more = records | {job_key(Job(RUNS["FM"]).seeded(3)): record(3, 0.63, 0.25)}
    rows = main_table(study, lay_out(study, study.cells("laptop"), one_more)).rows
    assert [row[1][-4:] for row in rows] == [" (4)", " (3)"]
    asked = main_table(study, lay_out(study, study.cells("laptop"), one_more, seeds=3)).rows
    assert not any("(" in row[1] for row in asked)


def test_settings_tables_use_shared_seeds(study, records):
    one_more = records | {
        job_key(Job(run).seeded(3)): record(3, 0.99, 0.25) for run in RUNS.values()
    }  # fmt: skip
    third = changed(RUNS["FM"], {"optimizer.lr": 0.001})
    cells = [*study.cells("laptop"), Cell("slow", "LT", (("", Job(third)),), 3)]
    one_more |= {job_key(Job(third).seeded(seed)): record(seed, 0.5, 0.1) for seed in range(3)}
    settings = replace(study, settings=True, shows="curves", pairs=(), base="FM")
    made = lay_out(settings, cells, one_more)
    found = by_title(page.tables_of(settings, made))
    table = found["What"]
    assert table.headings[1] == "LT (3 seeds)"
    assert table.rows[0][1].startswith(f"{np.mean(ACCURACY['FM']):.1%} ± ")
    assert "all rows have" in table.caption
    assert [row[2] for row in found["Through training"].rows] == ["3", "3", "3"]
    assert [row[2] for row in found["All figures"].rows] == ["4", "4", "3"]  # nothing that is finished is hidden
    (legend,) = filter(None, (place.get_legend() for place in charts.draw(settings, made).axes))
    assert [line.get_text() for line in legend.get_texts()] == ["FM (3)", "BAM-UDA (3)", "slow (3)"]
    assert [row[1:3] for row in found["Differences by seed"].rows] == [["BAM-UDA − FM", "4"], ["slow − FM", "3"]]


def test_main_table_shows_seeds_if_settings_share_none(study, records):
    kept = [Job(RUNS["FM"]).seeded(0), Job(RUNS["BAM-UDA"]).seeded(1), Job(RUNS["BAM-UDA"]).seeded(2)]
    apart = {job_key(job): records[job_key(job)] for job in kept}
    table = main_table(replace(study, settings=True), lay_out(replace(study, settings=True), study.cells(""), apart))
    assert table.headings[1] == "LT"
    assert [row[1][-4:] for row in table.rows] == [" (1)", " (2)"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "curves", "cost", "correlation"])
def test_page_is_self_contained_and_reproducible(study, layout, tmp_path, kind):
    study = replace(study, shows=kind)
    for folder in ("one", "two"):
        drawn = charts.draw(study, layout)
        tables = page.tables_of(study, layout)
        written = page.write(study, "laptop", tables, drawn, tmp_path / folder, "2 of 3 runs are finished.")
    assert [path.suffix for path in written] == [".md", ".html", ".svg", ".png"]
    for path in written:
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()
    html = written[1].read_text()
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert "https://" not in re.sub(r'xmlns(:\w+)?="[^"]*"|<metadata>.*?</metadata>', "", html, flags=re.DOTALL)
    identifiers = re.findall(r' id="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))
    ElementTree.fromstring(written[2].read_text())
    assert "![what](made-up-laptop.svg)" in written[0].read_text()


def test_table_escapes_its_text():
    table = Table("<b>", ["a|b"], [["<img src=x onerror=alert(1)>"], ["1 | 2"]], "A & B")
    assert "<img" not in table.html()
    assert "&lt;b&gt;" in table.html()
    assert table.markdown().splitlines()[-1] == "| 1 \\| 2 |"
