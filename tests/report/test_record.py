import json
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.config.run import RunConfig
from surelabel.report.record import distinct_names, read_recorded
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError


def test_read_recorded_reads_all_files(point_run):
    found = read_recorded(RunFolder(point_run))
    result = json.loads((point_run / "result.json").read_text())
    timings = [json.loads(line) for line in (point_run / "timings.jsonl").read_text().splitlines()]
    assert found.averaged == result["averaged"]
    assert found.raw == result["raw"]
    assert found.tested == 597
    assert [row["step"] for row in found.history] == [4, 8, 12]
    assert found.seconds == pytest.approx(
        sum(row[key] for row in timings for key in ("views", "training", "evaluation"))
    )
    assert found.labelled.tolist() == json.loads((point_run / "split.json").read_text())["labelled"]
    assert found.finished
    assert found.notes == ()


def test_read_recorded_skips_a_half_written_line(point_run, copied):
    folder = copied(point_run)
    with (folder / "timings.jsonl").open("a") as file:
        file.write('{"step": 16, "traini')
    found = read_recorded(RunFolder(folder))
    assert found.notes == ("timings.jsonl has 1 damaged line, not shown here.",)
    assert found.seconds == pytest.approx(read_recorded(RunFolder(point_run)).seconds)


def test_read_recorded_skips_values_that_are_not_finite_numbers(point_run, copied):
    folder = copied(point_run)
    (folder / "metrics.jsonl").write_text(
        '{"step": 4, "accuracy": NaN, "ece": null, "nll": "x", "purity": true, "a": 1}\n[]\n3\n'
    )
    assert read_recorded(RunFolder(folder)).history == [{"step": 4.0, "a": 1.0}]


FILES = ("task.json", "split.json", "environment.json", "result.json", "metrics.jsonl", "timings.jsonl")
OBJECTS = [
    b'{"labelled": [3, -1, 0.5, 100000000000000000000000], "classes": ["\\ud800"]}',
    b"{}",
    b"[]",
    b'{"classes": 3, "labelled": {}, "averaged": []}',
    b'{"samples": 1e999, "step": 1' + b"0" * 400 + b"}",
]


@pytest.mark.slow
@settings(max_examples=100)
@given(st.tuples(*[st.binary(max_size=60) | st.sampled_from(OBJECTS)] * len(FILES)))
def test_read_recorded_accepts_any_bytes(contents):
    # Reading config.yaml would take a quarter of a second.
    with TemporaryDirectory() as folder, patch.object(RunFolder, "config", RunConfig(method="uda")):
        for name, content in zip(FILES, contents, strict=True):
            Path(folder, name).write_bytes(content)
        assert read_recorded(RunFolder(folder)).config.method == "uda"


def test_distinct_names_have_as_many_parents_as_needed(tmp_path):
    assert distinct_names([tmp_path / "a" / "run", tmp_path / "b" / "other"]) == ["run", "other"]
    assert distinct_names([tmp_path / "a" / "run", tmp_path / "b" / "run"]) == ["a/run", "b/run"]
    with pytest.raises(UserError, match="given twice"):
        distinct_names([tmp_path / "a", tmp_path / "b" / ".." / "a"])
