from dataclasses import replace

from surelabel.report.comparison import COLUMNS, beside, comparison, overlaid, same_data
from surelabel.report.record import read_recorded
from surelabel.report.run_view import RunView
from surelabel.training.run_folder import RunFolder


def made(path, data="a", **metrics):
    recorded = replace(read_recorded(RunFolder(path)), data_hash=data, averaged=metrics)
    return RunView(path.name, path.name, recorded, None, [])


def best(runs, key):
    column = list(COLUMNS).index(key)
    return [row[column].best for row in comparison(runs)]


def test_comparison_marks_the_best(point_run):
    runs = [made(point_run, accuracy=0.7, ece=0.2), made(point_run, accuracy=0.8, ece=0.3), made(point_run, ece=0.1)]
    assert best(runs, "accuracy") == [False, True, False]
    assert best(runs, "ece") == [False, False, True]
    assert best(runs, "nll") == best(runs, "steps") == [False] * 3


def test_comparison_marks_the_best_on_the_same_data(point_run):
    runs = [made(point_run, "a", ece=0.2), made(point_run, "b", ece=0.1), made(point_run, "a", ece=0.3)]
    assert best(runs, "ece") == [True, False, False]
    assert not same_data(runs[0], runs[1])
    assert not same_data(made(point_run, None), made(point_run, None))


def test_comparison_formats_its_cells(point_run):
    row = dict(zip(COLUMNS, comparison([made(point_run, accuracy=0.5, ece=0.25)])[0], strict=True))
    assert row["accuracy"].text == "50.0\N{NO-BREAK SPACE}%"
    assert row["ece"].text == "0.250"
    assert row["steps"].text == "12"
    assert row["nll"].text == "–"


def test_overlaid_gives_a_run_the_same_style_in_every_chart(point_run, untested_run):
    charts = {chart.title: chart for chart in overlaid([made(untested_run), made(point_run)])}
    assert {len(chart.legend) for chart in charts.values()} == {2}
    assert [name for _, _, name in charts["Accuracy"].legend] == ["untested", "fixmatch"]
    assert "var(--s2)" in charts["Accuracy"].svg


def test_beside_changes_the_ids_of_diagrams(point_run):
    run = replace(made(point_run), reliability='<svg id="fixmatch-1"/>')
    assert beside([run, made(point_run)]) == [(run, '<svg id="all-fixmatch-1"/>')]
