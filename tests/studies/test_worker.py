"""Three real worker processes on one storage; one of them is killed in the middle of a run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from surelabel.cli.main import main
from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.config.settings import read_yaml
from surelabel.studies import catalogue
from surelabel.studies import records as results
from surelabel.studies import worker as working
from surelabel.studies.plan import Cell, Job, changed, folder_name, job_key
from surelabel.studies.queue import Queue
from surelabel.studies.worker import Place, data_dir, perform
from surelabel.utils.errors import Busy, UserError
from tests.data.benchmarks.official_files import cifar_files, cifar_parts, write_cifar, write_idx
from tests.helpers.runs import fit_folder

RUNS = 4  # of the part of a study below: two methods at two learning rates
PROGRAM = """
import sys
from dataclasses import replace
from surelabel.cli.main import main
from surelabel.cli import study as command
from surelabel.studies import catalogue

if __name__ == "__main__":
    command.LEAST_LOST_AFTER = 1
    whole = catalogue.STUDIES["phc"]
    catalogue.STUDIES["phc"] = replace(whole, cells=lambda scale: whole.cells(scale)[:2])
    sys.exit(main(["study", "phc", "--seeds", "1", *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def part(monkeypatch):
    """Of the study of crystals only two methods on one benchmark, so that it is done in seconds."""
    whole = catalogue.STUDIES["phc"]
    monkeypatch.setitem(catalogue.STUDIES, "phc", replace(whole, cells=lambda scale: whole.cells(scale)[:2]))


def study(tmp_path, out, options, log):
    """`surelabel study phc` of that part, as a process of its own."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "--out", str(out), "--lost-after", "12", *options]
    with log.open("w") as file:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def in_the_middle(log):
    """The folder of the run that this worker is in the middle of: it has a checkpoint, and is far from its end."""
    begun = [line for line in log.read_text().splitlines() if line.startswith("Begun: ")]
    folders = [path for line in begun[-1:] for path in log.parent.glob(f"out/runs/study/*{line[-17:-1]}")]
    for folder in folders:
        lines = (folder / "metrics.jsonl").read_text().splitlines() if (folder / "checkpoint.pt").exists() else []
        if 1 <= len(lines) <= 6 and not (folder / "result.json").exists():
            return folder
    return None


def test_three_workers_share_a_study_and_what_a_killed_one_began_is_resumed(storage, tmp_path, tiny_options, capsys):
    out, logs = tmp_path / "out", [tmp_path / f"worker-{number}.log" for number in range(3)]
    options = [*tiny_options, "--storage", storage]
    workers = [study(tmp_path, out, options, log) for log in logs]
    killed = None
    deadline = time.monotonic() + 240
    while killed is None:
        assert time.monotonic() < deadline
        assert any(worker.poll() is None for worker in workers), logs[0].read_text()
        for worker, log in zip(workers, logs, strict=True):
            if worker.poll() is None and (killed := in_the_middle(log)):
                worker.send_signal(signal.SIGKILL)
                break
        time.sleep(0.02)
    codes = [worker.wait(timeout=240) for worker in workers]
    said = "".join(log.read_text() for log in logs)
    assert sorted(codes) == [-signal.SIGKILL, 0, 0], said

    records = [json.loads(path.read_text()) for path in (out / "results" / "runs").glob("*.json")]
    keys = [record["key"] for record in records]
    assert len(set(keys)) == len(keys) == RUNS
    assert said.count("Begun: ") == RUNS + 1
    assert len(re.findall(rf"^\[\d/{RUNS}\] .*; about \d+ .*left$", said, re.MULTILINE)) == RUNS
    states = [trial.state.name for trial in Queue(storage).study.trials]
    assert (states.count("COMPLETE"), states.count("FAIL")) == (RUNS, 1)
    resumed = [path for path in (out / "runs" / "study").glob("*.log") if "Resuming at step" in path.read_text()]
    assert [path.stem for path in resumed] == [killed.name]

    times = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")}
    assert main(["study", "phc", "--seeds", "1", "--out", str(out), *options]) == 0
    text = capsys.readouterr().out
    assert f"{RUNS} runs: {RUNS} finished, 0 to do" in text
    assert "Begun" not in text
    assert times == {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")}
    (page,) = (out / "results").glob("*.html")
    assert page.name.startswith("phc-laptop-1seed-")
    assert "With steps=40, " in page.read_text()


def test_another_machine_gets_the_results_from_the_storage(tmp_path, tiny_options, capsys):
    """Another folder stands for another machine: it has the storage, but neither run folders nor results."""
    storage = f"sqlite:///{tmp_path / 'shared.sqlite3'}"
    options = ["study", "phc", "--seeds", "1", "--storage", storage, *tiny_options[2:], "--set", "steps=6"]
    assert main([*options, "--out", str(tmp_path / "here")]) == 0
    first = capsys.readouterr().out
    assert main([*options, "--out", str(tmp_path / "there")]) == 0
    second = capsys.readouterr().out
    assert f"{RUNS} finished, 0 to do" in second
    here, there = (sorted((tmp_path / name / "results" / "runs").glob("*.json")) for name in ("here", "there"))
    assert [path.name for path in here] == [path.name for path in there]
    assert [path.read_text() for path in here] == [path.read_text() for path in there]
    assert not (tmp_path / "there" / "runs").exists()
    assert first.split("\n\n")[1:-1] == second.split("\n\n")[1:-1]
    # And from the results alone, with neither storage nor run folders, nothing is run again.
    fresh = [word if word != storage else f"sqlite:///{tmp_path / 'fresh.sqlite3'}" for word in options]
    assert main([*fresh, "--out", str(tmp_path / "there")]) == 0
    assert f"{RUNS} finished, 0 to do" in capsys.readouterr().out


def test_two_workers_of_one_command_save_when_it_is_asked_to_stop_and_it_goes_on_from_there(tmp_path, tiny_options):
    storage = f"sqlite:///{tmp_path / 'study.sqlite3'}"
    log = tmp_path / "worker.log"
    options = [*tiny_options, "--storage", storage]
    command = study(tmp_path, tmp_path / "out", [*options, "--workers", "2"], log)
    deadline = time.monotonic() + 240
    while not (folder := in_the_middle(log)):
        assert time.monotonic() < deadline
        assert command.poll() is None, log.read_text()
        time.sleep(0.02)
    command.terminate()
    assert command.wait(timeout=60) == 128 + signal.SIGTERM
    assert "The same command goes on from here" in log.read_text()
    assert "RUNNING" not in [trial.state.name for trial in Queue(storage).study.trials]
    assert (folder / "checkpoint.pt").exists()
    assert not (folder / "result.json").exists()
    assert main(["study", "phc", "--seeds", "1", "--out", str(tmp_path / "out"), *options]) == 0
    assert len(list((tmp_path / "out" / "results" / "runs").glob("*.json"))) == RUNS
    assert "Resuming at step" in folder.with_name(f"{folder.name}.log").read_text()


def test_a_worker_that_is_stopped_while_it_does_not_train_gives_its_run_back(tmp_path, tiny_options, monkeypatch):
    storage = f"sqlite:///{tmp_path / 'study.sqlite3'}"

    def reading(job, place):
        """As those who read do, it takes what goes wrong for a damaged file."""
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except Exception as error:
            raise UserError("the file is damaged") from error

    monkeypatch.setattr(working, "perform", reading)
    before = signal.getsignal(signal.SIGTERM)
    options = ["--seeds", "1", "--out", str(tmp_path), "--storage", storage, *tiny_options]
    assert main(["study", "phc", *options]) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    states = [trial.state.name for trial in Queue(storage).study.trials]
    assert (states.count("WAITING"), states.count("RUNNING")) == (RUNS, 0)


def test_fine_tuning_follows_its_run_and_is_a_result_of_its_own(tiny, tmp_path):
    job = Job(replace(tiny, method="paws", steps=4), finetune=0.05)
    place = Place(tmp_path, "sqlite:///unused", lost_after=60)
    base, head = perform(job.before, place), perform(job, place)
    assert (base["key"], head["key"]) == (job_key(job.before), job_key(job))
    assert head["config"] == base["config"] | {"finetune.lr": 0.05}
    assert base["split"] == head["split"]
    (stored,) = (tmp_path / "runs" / "study").glob(f"*{job_key(job)}/config.yaml")
    assert read_yaml(stored)["optimizer.lr"] == 0.05
    assert read_yaml(stored)["method"] == "supervised"


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path, tiny_options, capsys, monkeypatch):
    def broken(job, place):
        raise UserError("the loss became nan at step 3")

    monkeypatch.setattr(working, "perform", broken)
    said = said_of_failures("the loss became nan at step 3", tmp_path, tiny_options, capsys)
    assert "0 of 4 runs are finished" in said


def said_of_failures(words, folder, options, capsys):
    """All runs fail: each is begun, told of as it fails, and told of again at the end."""
    assert main(["study", "phc", "--seeds", "1", "--out", str(folder), *options]) == 1
    said = capsys.readouterr().out
    assert said.count("Begun") == RUNS
    assert said.count(words) == 2 * RUNS
    return said


def test_a_run_that_fails_by_anything_does_not_block_the_others(tmp_path, tiny_options, capsys, monkeypatch):
    from surelabel.training import fit

    def broken(run, resume, console, labels_of):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(fit, "fit", broken)
    said_of_failures("CUDA out of memory", tmp_path, tiny_options, capsys)
    logs = list((tmp_path / "runs" / "study").glob("*.log"))
    assert len(logs) == RUNS
    assert all("Traceback" in log.read_text() for log in logs)


def test_a_result_that_cannot_be_written_does_not_end_the_worker(tmp_path, tiny_options, capsys, monkeypatch):
    def full(record, folder, name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "write", full)
    said_of_failures("No space left on device", tmp_path, [*tiny_options[2:], "--set", "steps=4"], capsys)


def test_what_is_no_error_ends_the_worker_and_gives_its_run_back(tiny, tmp_path, monkeypatch):
    def ended(job, place):
        raise SystemExit(3)

    place = Place(tmp_path, f"sqlite:///{tmp_path / 'study.sqlite3'}", lost_after=60)
    key = job_key(Job(tiny))
    Queue(place.storage).add([key])
    monkeypatch.setattr(working, "perform", ended)
    with pytest.raises(SystemExit):
        working.work([Job(tiny)], place)
    assert Queue(place.storage).counts([key])["waiting"] == [key]


def test_a_run_that_another_worker_turns_out_to_train_is_given_back(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(working, "BUSY_PAUSE", 0.0)
    job = Job(replace(tiny, steps=4))
    place = Place(tmp_path, f"sqlite:///{tmp_path / 's.sqlite3'}", lost_after=60)
    tries = []

    def busy_once(job, place):
        tries.append(job)
        if len(tries) == 1:
            raise Busy("another process is training there")
        return perform(job, place)

    monkeypatch.setattr(working, "perform", busy_once)
    queue = Queue(place.storage)
    queue.add([job_key(job)])
    working.work([job], place)
    assert queue.counts([job_key(job)])["complete"] == [job_key(job)]
    assert "Given back: " in capsys.readouterr().out


@pytest.fixture
def elsewhere(tiny, tmp_path, monkeypatch):
    """A study of a run and three fine-tunings of it, whose run is finished in another folder, and that folder."""
    base = Job(replace(tiny, method="paws", steps=4))
    cells = [Cell("PAWS", "digits", tuple((str(lr), replace(base, finetune=lr)) for lr in (0.05, 0.02, 0.01)), 1)]
    whole = catalogue.STUDIES["phc"]
    monkeypatch.setitem(catalogue.STUDIES, "phc", replace(whole, cells=lambda scale: cells, pairs=()))
    place = Place(tmp_path / "there", f"sqlite:///{tmp_path / 'study.sqlite3'}", lost_after=60)
    Queue(place.storage).add([job_key(base)])
    working.work([base], place)
    return [base, *(job for _, job in cells[0].choices)], place


def test_fine_tuning_is_left_to_the_machine_that_has_its_run(elsewhere, tmp_path, capsys):
    """The run was made elsewhere, and must not be made again, least of all twice at the same time."""
    jobs, there = elsewhere
    here = tmp_path / "here"
    capsys.readouterr()
    assert main(["study", "phc", "--out", str(here), "--storage", there.storage]) == 1
    said = capsys.readouterr().out
    assert said.count("Left to do elsewhere: the fine-tuning of paws on") == 1
    assert said.index("Left to do elsewhere") < said.index("1 of 4 runs are finished")
    assert f"(runs: 3), since {here / 'runs' / 'study' / folder_name(jobs[0])} is not here" in said
    assert "--again" in said
    assert "Begun" not in said
    assert not (here / "runs").exists()
    keys = [job_key(job) for job in jobs]
    assert Queue(there.storage).counts(keys)["waiting"] == keys[1:]
    working.work(jobs, there)
    assert Queue(there.storage).counts(keys)["complete"] == keys


def test_from_results_alone_a_run_is_trained_again_to_be_fine_tuned_where_that_is_asked_for(
    elsewhere, tmp_path, capsys
):
    _, there = elsewhere
    out = tmp_path / "clone"
    shutil.copytree(there.results, out / "results" / "runs")
    (stored,) = (out / "results" / "runs").iterdir()
    marked = stored.read_text().replace('"seconds"', '"mark": 1,\n "seconds"')
    stored.write_text(marked)
    capsys.readouterr()
    assert main(["study", "phc", "--out", str(out), "--again"]) == 0
    said = capsys.readouterr().out
    assert "4 runs: 1 finished, 3 to do" in said
    assert (said.count("Again: "), said.count("Begun: ")) == (1, 3)
    assert "Left to do" not in said
    assert stored.read_text() == marked
    assert len(list(stored.parent.iterdir())) == 4
    assert main(["study", "phc", "--out", str(out)]) == 0
    assert "4 runs: 4 finished, 0 to do" in capsys.readouterr().out


def test_a_run_that_another_worker_trains_again_is_waited_for(elsewhere, tmp_path, capsys):
    jobs, there = elsewhere
    here = replace(there, out=tmp_path / "here", again=True)
    folder = here.folder(jobs[0])
    keys = [job_key(job) for job in jobs[:2]]
    queue = Queue(there.storage)
    queue.add(keys)
    folder.parent.mkdir(parents=True)
    worker = threading.Thread(target=working.work, args=(jobs[:2], here))
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        worker.start()
        deadline = time.monotonic() + 60
        while not queue.counts(keys)["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        assert not folder.exists()
        shutil.copytree(there.folder(jobs[0]), folder)
    worker.join(timeout=60)
    assert queue.counts(keys)["complete"] == keys
    assert "Again: " not in capsys.readouterr().out


def test_a_run_goes_on_and_is_fine_tuned_after_its_data_have_moved(tmp_path):
    files = cifar_files("cifar10", "binary", cifar_parts("cifar10", records=40))
    write_cifar(tmp_path / "one", "cifar10", "binary", False, files)
    run = changed(
        recipe("paws", "cifar10", 40),
        {"steps": 4, "network.name": "wrn-10-1", "network.stem_stride": 8, "paws.unlabelled": 4, "paws.per_class": 1,
         "paws.small_crops": 0, "evaluation.every": 1, "threads": 1, "labels": "20%"},
    )  # fmt: skip
    job = Job(run, finetune=0.05)
    place = Place(tmp_path, "sqlite:///unused", lost_after=60, data_dir=str(tmp_path / "one"))

    def stop_at_three(row):
        if row["step"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_folder(
            replace(run, out=str(place.runs / folder_name(job.before)), data_dir=place.data_dir), watch=stop_at_three
        )
    for before, after, part in (("one", "two", job.before), ("two", "three", job)):
        (tmp_path / before).rename(tmp_path / after)
        record = perform(part, replace(place, data_dir=str(tmp_path / after)))
        assert record["key"] == job_key(part)
    assert "Resuming at step" in (place.runs / f"{folder_name(job.before)}.log").read_text()


def test_a_record_names_the_source_only_where_it_made_the_run(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.training.run_folder.commit", lambda: None)
    place = Place(tmp_path, "sqlite:///unused", lost_after=60)
    job = Job(replace(tiny, steps=4))
    made, read = perform(job, place), perform(job, place)
    assert made["environment"]["source"] == results.source_of(Path(results.__file__).parents[1])
    assert "source" not in read["environment"]


def test_one_folder_is_given_for_all_data_and_fashion_mnist_may_be_in_it_or_not(tmp_path):
    def of(name):
        return data_dir(Job(RunConfig(data=name)), str(tmp_path))

    assert [of("cifar10-lt100"), of("imagenet"), of("phc"), of("fashion-mnist")] == [str(tmp_path)] * 2 + [None] * 2
    write_idx(tmp_path / "fashion-mnist")
    assert of("fashion-mnist") == str(tmp_path)
    assert data_dir(Job(RunConfig(data="fashion-mnist")), None) is None
