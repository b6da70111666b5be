from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from surelabel.equations import Groups
from surelabel.inference.trained_run import load
from surelabel.report.record import read_recorded
from surelabel.report.run_view import _charts, bin_rows, most_confused, view
from surelabel.training.run_folder import RunFolder


@given(arrays.arrays(np.int64, (5, 5), elements=st.integers(0, 9)), st.integers(1, 30))
def test_most_confused_matches_a_plain_loop(matrix, most):
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j and matrix[i, j]]
    pairs.sort(key=lambda pair: -matrix[pair])
    expected = [(i, j, int(matrix[i, j]), matrix[i, j] / matrix[i].sum()) for i, j in pairs[:most]]
    assert most_confused(matrix, most) == expected


def test_bin_rows_are_means_without_empty_bins():
    bins = Groups(torch.tensor([0.0, 4.0]), torch.tensor([0.0, 3.0]), torch.tensor([0.0, 1.0]))
    assert bin_rows(bins) == [("50–100 %", 4, 0.75, 0.25)]


@cache
def viewed(folder):
    return view(load(folder), read_recorded(RunFolder(folder)), "x", "x")


def charts(folder):
    return _charts(read_recorded(RunFolder(folder)), "x")


def test_charts_show_only_known_metrics(point_run, bayesian_run, untested_run):
    titles = {run.name: [chart.title for chart in charts(run)] for run in (point_run, untested_run)}
    assert titles["fixmatch"] == ["Accuracy and confidence", "Calibration error (ECE)", "Pseudo-labels", "Losses"]
    assert titles["untested"] == ["Pseudo-labels", "Losses"]
    losses = charts(bayesian_run)[-1]
    assert [name for _, _, name in losses.legend] == ["labelled", "unlabelled", "prior"]


def test_view_shows_stored_metrics_without_the_data(point_run, copied):
    folder = copied(point_run)
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("digits.npz", "gone.npz"))
    here, there = viewed(folder), viewed(point_run)
    assert here.measured is None
    assert here.averaged == pytest.approx(there.averaged)
    assert [(row.name, row.count, row.accuracy) for row in here.classes] == [
        (row.name, row.count, row.accuracy) for row in there.classes
    ]
    assert "gone.npz" in here.notes[0]
    assert here.notes[0].endswith("The metrics are from the end of the run.")


def test_view_notes_metrics_that_differ_from_the_result(point_run, copied):
    folder = copied(point_run)
    result = (folder / "result.json").read_text().replace('"nll": ', '"nll": 7')
    (folder / "result.json").write_text(result)
    (note,) = viewed(folder).notes
    assert note.startswith("Computed now, nll differ from result.json")
    assert viewed(point_run).notes == []
