import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import surelabel
from surelabel.studies import records
from surelabel.studies.plan import Job, job_key, settings_of
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, digits_file):
    """A finished run on the digits, and its folder."""
    from rich.console import Console

    from surelabel.config.run import Average, Batch, Evaluation, Network, RunConfig

    run = RunConfig(
        data=str(digits_file), labels=40, steps=12, threads=1, device="cpu", precision="32", batch=Batch(8, 2),
        out=str(tmp_path_factory.mktemp("runs") / "run"), network=Network("wrn-10-1", norm_momentum=0.1),
        average=Average(0.9, warm=True), evaluation=Evaluation(every=4, samples=100),
    )  # fmt: skip
    return run, fit_folder(run, console=Console(quiet=True)).path


def test_record_of_holds_the_contents_of_the_run_folder(finished):
    run, folder = finished
    record = records.record_of(folder)
    result = json.loads((folder / "result.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timings = [json.loads(line) for line in (folder / "timings.jsonl").read_text().splitlines()]
    assert record["key"] == job_key(Job(run))
    assert record["config"] == settings_of(Job(run))
    assert (record["final"], record["raw"], record["summary"]) == (result["averaged"], result["raw"], result["summary"])
    assert [row["step"] for row in record["history"]] == [4, 8, 12]
    assert [row["ece"] for row in record["history"]] == pytest.approx([row["ece"] for row in rows], rel=1e-5)
    assert record["seconds"] == pytest.approx(
        sum(row["views"] + row["training"] + row["evaluation"] for row in timings), abs=0.06
    )
    assert 0 < record["seconds_a_step"] < record["seconds"]
    assert str(folder) not in json.dumps(record)


def test_read_all_computes_keys_anew(finished, tmp_path):
    run, folder = finished
    record = records.record_of(folder)
    records.write(record | {"key": "wrong"}, tmp_path, "some")
    assert records.read_all(tmp_path) == {job_key(Job(run)): record | {"key": "wrong"}}
    assert records.read_all(tmp_path / "none") == {}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"config": 3, "final": {}}'])
def test_read_all_names_a_file_that_is_no_record(tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(UserError, match=r"other\.json"):
        records.read_all(tmp_path)


def test_write_uses_one_line_per_key_and_evaluation(finished, tmp_path):
    record = records.record_of(finished[1])
    for changed in (record, record | {"history": []}):
        text = records.write(changed, tmp_path, "some").read_text()
        assert json.loads(text) == changed
        assert len(text.splitlines()) == len(changed) + max(1, len(changed["history"])) + 3  # braces, a bracket


def test_thinned_history_has_at_most_100_rows_and_the_last():
    for length in (1, 99, 100, 101, 1024):
        rows = [{"step": step} for step in range(length)]
        kept = records._thinned(rows)
        assert len(kept) <= 100
        assert kept[-1] == rows[-1]
        assert length > 100 or kept == rows
        assert len({after["step"] - before["step"] for before, after in pairwise(kept)}) <= 1


def test_step_seconds_of_old_records_leave_out_evaluation():
    laps = [{"step": 10, "images_per_second": 1, "training": 90.0, "evaluation": 5.0}]
    laps += [
        {"step": step, "images_per_second": 1, "views": 1.0, "training": 2.0, "evaluation": 7.0} for step in (20, 30)
    ]
    assert records._step_seconds(laps) == pytest.approx(0.3)
    assert records._step_seconds(laps[:1]) is None


def test_step_seconds_use_the_steps_made_in_a_lap():
    """On a GPU the parts only measure launches; a lap that was stopped has fewer steps."""
    lap = {"images_per_second": 1, "views": 0.1, "training": 0.1, "evaluation": 7.0}
    laps = [lap | {"step": 10, "stepping": 90.0, "steps": 10}]
    laps += [lap | {"step": step, "stepping": 3.0, "steps": 10} for step in (20, 30)]
    laps += [lap | {"step": step, "stepping": 0.6, "steps": 2} for step in (40, 50, 60)]
    assert records._step_seconds(laps) == pytest.approx(0.3)
    assert records._seconds(laps[1]) == pytest.approx(7.2)


def test_record_of_names_machine_and_source(finished, tmp_path):
    _, folder = finished
    assert records.record_of(folder)["machine"] == {"device": "cpu", "precision": "32", "compile": False}
    shutil.copytree(folder, tmp_path / "run")
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["surelabel"] == surelabel.__version__
    for commit, source in ((None, "1234"), ("abcd", None)):
        (tmp_path / "run" / "environment.json").write_text(json.dumps(environment | {"commit": commit}))
        assert records.record_of(tmp_path / "run", source="1234")["environment"].get("source") == source
        assert "source" not in records.record_of(tmp_path / "run")["environment"]


def test_source_of_depends_on_every_file(tmp_path):
    package = Path(surelabel.__file__).parent
    for name in ("same", "other"):
        shutil.copytree(package, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    with (tmp_path / "other" / "methods" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert records.source_of(tmp_path / "same") == records.source_of(package)
    assert records.source_of(tmp_path / "other") != records.source_of(package)


def test_finished_folders_finds_only_finished_runs(finished, tmp_path):
    _, folder = finished
    (folder.parent / "begun").mkdir(exist_ok=True)
    assert list(records.finished_folders([folder])) == [folder]
    assert list(records.finished_folders([folder.parent])) == [folder]
    with pytest.raises(UserError, match="is not a folder"):
        list(records.finished_folders([tmp_path / "none"]))


def test_record_of_needs_a_test_set(finished, tmp_path):
    _, folder = finished
    for name in ("config.yaml", "metrics.jsonl", "split.json", "timings.jsonl", "environment.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(UserError, match="cannot read"):
        records.record_of(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(UserError, match="not a finished run"):
        records.record_of(tmp_path)
