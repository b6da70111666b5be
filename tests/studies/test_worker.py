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
from surelabel.studies import catalogue, records, worker
from surelabel.studies.plan import Cell, Job, changed, folder_name, job_key
from surelabel.studies.queue import Queue
from surelabel.studies.worker import Place, data_dir, perform
from surelabel.utils.errors import Busy, UserError
from tests.data.benchmarks.official_files import cifar_files, cifar_parts, write_cifar, write_idx
from tests.helpers.runs import fit_folder

RUNS = 4  # two methods at two learning rates
PROGRAM = """
import sys
from dataclasses import replace
from surelabel.cli.main import main
from surelabel.studies import catalogue

if __name__ == "__main__":
    whole = catalogue.STUDIES["phc"]
    catalogue.STUDIES["phc"] = replace(whole, cells=lambda scale: whole.cells(scale)[:2])
    sys.exit(main(["study", "phc", "--seeds", "1", *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def part(monkeypatch):
    """Cut the study to two methods on one benchmark, which takes seconds."""
    whole = catalogue.STUDIES["phc"]
    monkeypatch.setitem(catalogue.STUDIES, "phc", replace(whole, cells=lambda scale: whole.cells(scale)[:2]))


def study(tmp_path, out, options, log):
    """Start `surelabel study phc` in a process of its own."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "--out", str(out), *options]
    with log.open("w") as file:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def in_the_middle(log):
    """The folder of this worker's run, if it has a checkpoint and is far from its end."""
    begun = [line for line in log.read_text().splitlines() if line.startswith("Begun: ")]
    folders = [path for line in begun[-1:] for path in log.parent.glob(f"out/runs/study/*{line[-17:-1]}")]
    for folder in folders:
        lines = (folder / "metrics.jsonl").read_text().splitlines() if (folder / "checkpoint.pt").exists() else []
        if 1 <= len(lines) <= 6 and not (folder / "result.json").exists():
            return folder
    return None


@pytest.mark.slow
def test_study_resumes_the_run_of_a_killed_worker(storage, tmp_path, tiny_options, capsys):
    out, logs = tmp_path / "out", [tmp_path / f"worker-{number}.log" for number in range(3)]
    options = [*tiny_options, "--storage", storage]
    workers = [study(tmp_path, out, options, log) for log in logs]
    killed = None
    deadline = time.monotonic() + 240
    while killed is None:
        assert time.monotonic() < deadline
        assert any(worker.poll() is None for worker in workers), logs[0].read_text()
        for process, log in zip(workers, logs, strict=True):
            if process.poll() is None and (killed := in_the_middle(log)):
                process.send_signal(signal.SIGKILL)
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
    assert [trial.state.name for trial in Queue(storage).study.trials] == ["COMPLETE"] * RUNS
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


@pytest.mark.slow
def test_study_gets_the_results_of_other_machines(tmp_path, tiny_options, capsys):
    """Another folder stands for another machine: it shares the storage, but no files."""
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
    # The results alone, without storage and run folders, are enough too.
    fresh = [word if word != storage else f"sqlite:///{tmp_path / 'fresh.sqlite3'}" for word in options]
    assert main([*fresh, "--out", str(tmp_path / "there")]) == 0
    assert f"{RUNS} finished, 0 to do" in capsys.readouterr().out


@pytest.mark.slow
def test_study_with_two_workers_saves_on_sigterm_and_resumes(tmp_path, tiny_options):
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
    assert "The same command resumes" in log.read_text()
    assert "RUNNING" not in [trial.state.name for trial in Queue(storage).study.trials]
    assert (folder / "checkpoint.pt").exists()
    assert not (folder / "result.json").exists()
    assert main(["study", "phc", "--seeds", "1", "--out", str(tmp_path / "out"), *options]) == 0
    assert len(list((tmp_path / "out" / "results" / "runs").glob("*.json"))) == RUNS
    assert "Resuming at step" in folder.with_name(f"{folder.name}.log").read_text()


@pytest.mark.slow
def test_worker_releases_its_run_if_stopped_while_reading(tmp_path, tiny_options, monkeypatch):
    storage = f"sqlite:///{tmp_path / 'study.sqlite3'}"

    def reading(job, place):
        """Like real readers, it takes any exception for a damaged file."""
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except Exception as error:
            raise UserError("the file is damaged") from error

    monkeypatch.setattr(worker, "perform", reading)
    before = signal.getsignal(signal.SIGTERM)
    options = ["--seeds", "1", "--out", str(tmp_path), "--storage", storage, *tiny_options]
    assert main(["study", "phc", *options]) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    states = [trial.state.name for trial in Queue(storage).study.trials]
    assert (states.count("WAITING"), states.count("RUNNING")) == (RUNS, 0)


@pytest.mark.slow
def test_perform_fine_tunes_a_finished_run(tiny, tmp_path):
    job = Job(replace(tiny, method="paws", steps=4), finetune=0.05)
    place = Place(tmp_path, "sqlite:///unused")
    base, head = perform(job.before, place), perform(job, place)
    assert (base["key"], head["key"]) == (job_key(job.before), job_key(job))
    assert head["config"] == base["config"] | {"finetune.lr": 0.05}
    assert base["split"] == head["split"]
    (stored,) = (tmp_path / "runs" / "study").glob(f"*{job_key(job)}/config.yaml")
    assert read_yaml(stored)["optimizer.lr"] == 0.05
    assert read_yaml(stored)["method"] == "supervised"


def said_of_failures(words, folder, options, capsys):
    """The output of a study whose runs all fail; each error is shown at once and at the end."""
    assert main(["study", "phc", "--seeds", "1", "--out", str(folder), *options]) == 1
    said = capsys.readouterr().out
    assert said.count("Begun") == RUNS
    assert said.count(words) == 2 * RUNS
    return said


@pytest.mark.slow
def test_worker_survives_any_error_of_a_run(tmp_path, tiny_options, capsys, monkeypatch):
    from surelabel.training import fit

    def broken(run, resume, console, labels_of):
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(fit, "fit", broken)
    said = said_of_failures("CUDA out of memory", tmp_path, tiny_options, capsys)
    assert "0 of 4 runs are finished" in said
    logs = list((tmp_path / "runs" / "study").glob("*.log"))
    assert len(logs) == RUNS
    assert all("Traceback" in log.read_text() for log in logs)


@pytest.mark.slow
def test_worker_survives_a_result_that_cannot_be_written(tmp_path, tiny_options, capsys, monkeypatch):
    def full(record, folder, name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "write", full)
    said_of_failures("No space left on device", tmp_path, [*tiny_options[2:], "--set", "steps=4"], capsys)


def test_worker_releases_a_run_whose_folder_is_busy(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(worker, "BUSY_PAUSE", 0.0)
    job = Job(replace(tiny, steps=4))
    place = Place(tmp_path, f"sqlite:///{tmp_path / 's.sqlite3'}")
    tries = []

    def busy_once(job, place):
        tries.append(job)
        if len(tries) == 1:
            raise Busy("another process is training there")
        return perform(job, place)

    monkeypatch.setattr(worker, "perform", busy_once)
    queue = Queue(place.storage)
    queue.add([job_key(job)])
    worker.work([job], place)
    assert queue.status([job_key(job)]).complete.keys() == {job_key(job)}
    assert "Given back: " in capsys.readouterr().out


@pytest.fixture
def elsewhere(tiny, tmp_path, monkeypatch):
    """A study of a run and three fine-tunings of it; the run is finished at another place."""
    base = Job(replace(tiny, method="paws", steps=4))
    cells = [Cell("PAWS", "digits", tuple((str(lr), replace(base, finetune=lr)) for lr in (0.05, 0.02, 0.01)), 1)]
    whole = catalogue.STUDIES["phc"]
    monkeypatch.setitem(catalogue.STUDIES, "phc", replace(whole, cells=lambda scale: cells, pairs=()))
    place = Place(tmp_path / "there", f"sqlite:///{tmp_path / 'study.sqlite3'}")
    Queue(place.storage).add([job_key(base)])
    worker.work([base], place)
    return [base, *(job for _, job in cells[0].choices)], place


@pytest.mark.slow
def test_study_leaves_fine_tuning_to_the_machine_with_its_run(elsewhere, tmp_path, capsys):
    jobs, there = elsewhere
    here = tmp_path / "here"
    capsys.readouterr()
    assert main(["study", "phc", "--out", str(here), "--storage", there.storage]) == 1
    said = capsys.readouterr().out
    message = f"(runs: 3), because {here / 'runs' / 'study' / folder_name(jobs[0])} is not here"
    assert said.count(message) == 2  # before any work and at the end
    assert said.rindex(message) < said.index("1 of 4 runs are finished")
    assert "Begun" not in said
    assert not (here / "runs").exists()
    keys = [job_key(job) for job in jobs]
    assert Queue(there.storage).status(keys).waiting == keys[1:]
    worker.work(jobs, there)
    assert Queue(there.storage).status(keys).complete.keys() == set(keys)


@pytest.mark.slow
def test_study_again_trains_a_run_again_to_fine_tune_it(elsewhere, tmp_path, capsys):
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


@pytest.mark.slow
def test_worker_waits_for_a_run_that_another_trains_again(elsewhere, tmp_path, capsys):
    jobs, there = elsewhere
    here = replace(there, out=tmp_path / "here", again=True)
    folder = here.folder(jobs[0])
    keys = [job_key(job) for job in jobs[:2]]
    queue = Queue(there.storage)
    queue.add(keys)
    folder.parent.mkdir(parents=True)
    thread = threading.Thread(target=worker.work, args=(jobs[:2], here))
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        thread.start()
        deadline = time.monotonic() + 60
        while not queue.status(keys).running:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        assert not folder.exists()
        shutil.copytree(there.folder(jobs[0]), folder)
    thread.join(timeout=60)
    assert queue.status(keys).complete.keys() == set(keys)
    assert "Again: " not in capsys.readouterr().out


@pytest.mark.slow
def test_perform_resumes_and_fine_tunes_after_data_moved(tmp_path):
    files = cifar_files("cifar10", "binary", cifar_parts("cifar10", records=40))
    write_cifar(tmp_path / "one", "cifar10", "binary", False, files)
    run = changed(
        recipe("paws", "cifar10", 40),
        {"steps": 4, "network.name": "wrn-10-1", "network.stem_stride": 8, "paws.unlabelled": 4, "paws.per_class": 1,
         "paws.small_crops": 0, "evaluation.every": 1, "threads": 1, "labels": "20%"},
    )  # fmt: skip
    job = Job(run, finetune=0.05)
    place = Place(tmp_path, "sqlite:///unused", data_dir=str(tmp_path / "one"))

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


def test_perform_records_the_source_only_if_it_trained(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.training.environment.commit", lambda: None)
    place = Place(tmp_path, "sqlite:///unused")
    job = Job(replace(tiny, steps=4))
    made, read = perform(job, place), perform(job, place)
    assert made["environment"]["source"] == records.source_of(Path(records.__file__).parents[1])
    assert "source" not in read["environment"]


def test_data_dir_holds_fashion_mnist_only_if_there(tmp_path):
    def of(name):
        return data_dir(Job(RunConfig(data=name)), str(tmp_path))

    assert [of("cifar10-lt100"), of("imagenet"), of("phc"), of("fashion-mnist")] == [str(tmp_path)] * 2 + [None] * 2
    write_idx(tmp_path / "fashion-mnist")
    assert of("fashion-mnist") == str(tmp_path)
    assert data_dir(Job(RunConfig(data="fashion-mnist")), None) is None
