import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from surelabel.cli.main import main
from surelabel.config.settings import to_yaml
from surelabel.inference.trained_run import load
from surelabel.training import build
from surelabel.training.checkpoints import read_checkpoint, write_checkpoint
from surelabel.training.display import Display
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import FolderExists, UserError
from surelabel.utils.signals import Stopped
from tests.conftest import digits, signalled
from tests.helpers.cli import fit_options
from tests.helpers.runs import fit_folder

RESULTS = ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json")


def assert_same_results(first, second):
    for name in RESULTS:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize("git", [True, False])
def test_fit_writes_config_task_split_and_environment(tiny, monkeypatch, git):
    if not git:
        monkeypatch.setenv("PATH", "")
    folder = fit_folder(tiny)
    assert folder.config.selection.threshold == 0.95
    assert folder.config.target.temperature == 0
    assert folder.task().classes == tuple(str(digit) for digit in range(10))
    labelled = folder.labelled()
    assert len(labelled) == 40
    assert (np.diff(labelled) > 0).all()
    environment = json.loads((folder.path / "environment.json").read_text())
    assert environment["torch"] == torch.__version__
    assert {"python", "surelabel", "commit", "threads"} <= set(environment)
    assert git or environment["commit"] is None


def test_fit_keeps_an_existing_folder(tiny):
    tiny.folder.mkdir()
    (tiny.folder / "thesis.txt").write_text("all of it")
    with pytest.raises(FolderExists, match=r"run exists already") as raised:
        fit_folder(tiny)
    assert not raised.value.begun
    assert [path.name for path in tiny.folder.iterdir()] == ["thesis.txt"]
    (tiny.folder / "config.yaml").touch()
    with pytest.raises(FolderExists) as raised:
        fit_folder(tiny)
    assert raised.value.begun


def test_fit_checks_the_folder_before_reading_data(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.training.build_data.load_data", None)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"cannot write .*file/inner/run: Not a directory. Choose another folder"):
        fit_folder(replace(tiny, out=str(tmp_path / "file" / "inner" / "run")))
    with pytest.raises(UserError, match="File name too long"):
        fit_folder(replace(tiny, out=str(tmp_path / ("long" * 100))))
    asked = []

    def refused(suffix=None, prefix=None, dir=None):  # as on a read-only file system, also for root
        asked.append(str(dir))
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    with pytest.raises(UserError, match=r"not/yet/run: Operation not permitted"):
        fit_folder(replace(tiny, out=str(tmp_path / "not" / "yet" / "run")))
    assert asked == [str(tmp_path)]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_fit_checks_the_folder_again_after_reading_data(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "check_writable", lambda self: None)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"file/run: "):
        fit_folder(replace(tiny, out=str(tmp_path / "file" / "run"), steps=1))


def test_fit_checks_the_folder_on_rank_zero_only(tiny, monkeypatch):
    monkeypatch.setattr("surelabel.training.build_data.load_data", lambda *_: pytest.fail("has come to the data"))
    monkeypatch.setattr(RunFolder, "check_writable", lambda self: pytest.fail("has tried to write"))
    for rank, words in ((0, "has tried to write"), (1, "has come to the data")):
        monkeypatch.setattr("surelabel.training.fit.rank_zero_only.rank", rank)
        with pytest.raises(pytest.fail.Exception, match=words):
            fit_folder(tiny)


@pytest.mark.parametrize("change", [{"labels": 7}, {"labels": 100_000}, {"data": "nowhere.npz"}], ids=str)
def test_fit_with_bad_settings_leaves_no_folder(tiny, change):
    with pytest.raises(UserError):
        fit_folder(replace(tiny, **change))
    assert not tiny.folder.exists()


def test_fit_with_unsuitable_views_leaves_no_folder(tiny, tmp_path):
    stored = {
        name: array.astype(np.float32) if "images" in name else array for name, array in np.load(tiny.data).items()
    }
    np.savez(tmp_path / "float.npz", **stored)
    config = replace(tiny, data=str(tmp_path / "float.npz"))
    with pytest.raises(UserError, match=r"another for views\.strong"):
        fit_folder(config)
    assert not config.folder.exists()
    fit_folder(replace(config, views=replace(config.views, strong="weak")))


@pytest.mark.slow
def test_fit_command_stops_at_a_signal_and_resumes(tiny, tmp_path):
    config, whole, stopped = tmp_path / "run.yaml", tmp_path / "whole", tmp_path / "stopped"
    config.write_text(to_yaml(tiny))
    words = ["fit", "--config", str(config), "--out", str(stopped)]
    program = [sys.executable, "-c", signalled(6, signal.SIGTERM), *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert f"surelabel fit --resume {stopped}" in done.stdout
    assert main([*words, "--resume", "auto"]) == 0
    fit_folder(replace(tiny, out=str(whole)))
    assert_same_results(whole, stopped)


@pytest.mark.slow
# Before the first evaluation, whose sums the checkpoint holds; at an evaluation, with the queue of quantiles; between
# two, with a teacher, a support and a Bayesian layer; and after the last step.
@pytest.mark.parametrize(
    ("method", "step", "number", "precision"),
    [
        ("fixmatch", 2, signal.SIGINT, "32"),
        ("bam-uda", 8, signal.SIGTERM, "32"),
        ("bam-uda+ema", 3, signal.SIGTERM, "bf16-mixed"),
        ("bam-paws+swa", 7, signal.SIGINT, "32"),
        ("supervised", 12, signal.SIGTERM, "32"),
    ],
)
def test_fit_resumes_bit_for_bit(tiny, tmp_path, monkeypatch, method, step, number, precision):
    tiny = replace(tiny, precision=precision)
    whole = fit_folder(replace(tiny, method=method, out=str(tmp_path / "whole")))
    shown = Display.step

    def stop_at(self, now):
        shown(self, now)
        if now == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Display, "step", stop_at)
    config = replace(tiny, method=method)
    with pytest.raises(Stopped) as stopped:
        fit_folder(config)
    assert stopped.value.exit_code == 128 + number
    assert read_checkpoint(config.folder / "checkpoint.pt")["step"] == step
    monkeypatch.setattr(Display, "step", shown)
    assert_same_results(whole.path, fit_folder(config, resume=True).path)


def test_resume_needs_the_same_settings(tiny):
    fit_folder(tiny)
    fit_folder(replace(tiny, threads=None), resume=True)
    with pytest.raises(UserError, match=r"started with optimizer\.lr 0\.03, but 0\.5 is asked for now"):
        fit_folder(replace(tiny, optimizer=replace(tiny.optimizer, lr=0.5)), resume=True)
    more_steps = "the learning rate falls along a cosine"
    with pytest.raises(UserError, match=more_steps):
        fit_folder(replace(tiny, steps=100), resume=True)
    with pytest.raises(UserError, match=more_steps):
        fit_options(["--resume", str(tiny.folder), "--steps", "100"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ["--method", "fixmatch+ema", "--weak_norm", "batch"],  # becomes batch-kept for a teacher
        ["--method", "fixmatch+ema", "--fidelity", "released"],  # has a joint pass, except with a teacher
        ["--method", "bam-paws"],
    ],
    ids=" ".join,
)
def test_resume_accepts_the_same_command(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phc").mkdir()  # not the named data set
    small = ["--steps", "2", "--network.name", "wrn-10-1", "--threads", "1", "--out", "run", "--resume", "auto"]
    small += ["--paws.unlabelled", "4", "--paws.per_class", "1"] if "bam-paws" in asked else ["--batch.labelled", "4"]
    for _ in range(2):
        assert main(["fit", *asked, *small]) == 0, capsys.readouterr().err
    assert "Resuming at step 2" in capsys.readouterr().out


def test_resume_follows_a_link_to_moved_data(tiny, tmp_path):
    data = tmp_path / "data.npz"
    shutil.copy(tiny.data, data)
    config = replace(tiny, data=str(data))
    fit_folder(config)
    data.rename(tmp_path / "elsewhere.npz")
    data.symlink_to(tmp_path / "elsewhere.npz")
    fit_folder(config, resume=True)


@pytest.mark.slow
def test_resume_keeps_the_precision_of_the_run(tiny):
    fit_folder(replace(tiny, precision="64"))
    assert fit_folder(replace(tiny, precision="auto"), resume=True).config.precision == "64"
    with pytest.raises(UserError, match="precision 64"):
        fit_folder(replace(tiny, precision="32"), resume=True)


def test_resume_falls_back_to_the_previous_checkpoint(tiny, capsys):
    folder = fit_folder(tiny).path
    expected = (folder / "weights.safetensors").read_bytes()
    newest = folder / "checkpoint.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    fit_folder(tiny, resume=True)
    printed = capsys.readouterr().out.replace("\n", " ")
    assert "checkpoint.pt is damaged" in printed
    assert "step 8" in printed
    assert (folder / "weights.safetensors").read_bytes() == expected

    for name in ("checkpoint.pt", "checkpoint-previous.pt"):
        (folder / name).write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint to resume from"):
        fit_folder(tiny, resume=True)


@pytest.mark.parametrize("change", ["shuffled", "fewer", "classes"])
def test_resume_and_evaluate_reject_changed_data(tiny, tmp_path, change):
    data = tmp_path / "data.npz"
    stored = dict(np.load(tiny.data))
    np.savez(data, **stored)
    config = replace(tiny, data=str(data))
    fit_folder(config)
    if change == "shuffled":
        stored["images"] = stored["images"][::-1]
    elif change == "fewer":
        stored |= {"images": stored["images"][:1000], "labels": stored["labels"][:1000]}
    else:
        stored["classes"] = np.array([f"digit {k}" for k in range(10)])
    np.savez(data, **stored)
    for use in (partial(fit_folder, config, resume=True), lambda: load(config.folder).evaluate()):
        with pytest.raises(UserError, match="started with other data"):
            use()


@pytest.mark.parametrize("name", ["torch", "processor"])
def test_resume_reports_another_environment(tiny, capsys, name):
    path = fit_folder(tiny).path / "environment.json"
    environment = json.loads(path.read_text())
    path.write_text(json.dumps(environment | {name: "another"}))
    fit_folder(tiny, resume=True)
    assert f"Started with {name} another, resuming with {environment[name]}" in capsys.readouterr().out


def test_resume_reports_and_uses_another_number_of_threads(tiny, capsys):
    fit_folder(tiny)
    fit_folder(replace(tiny, threads=2), resume=True)
    assert "threads 1, resuming with 2" in capsys.readouterr().out
    assert torch.get_num_threads() == 2


def test_fit_init_sets_the_backbone_of_the_teacher_too(tiny, tmp_path, monkeypatch):
    first = fit_folder(replace(tiny, method="bam-uda", threads=2, steps=1))
    seen = []

    def remember(config, method, loader, state, *rest):
        seen.append((state, torch.get_num_threads()))

    monkeypatch.setattr("surelabel.training.fit.train_and_save", remember)
    monkeypatch.setattr("surelabel.training.fit._tested", lambda trained, *_: trained)
    fit_folder(replace(tiny, method="paws+ema", init=str(first.path), out=str(tmp_path / "later")))
    (state, threads), stored = seen[0], first.weights()
    assert threads == 1
    for network in state.networks:
        weights = network.state_dict()
        assert all(torch.equal(stored[name], weights[name]) for name in weights if name.startswith("backbone."))


@pytest.mark.slow
def test_finetune_rejects_changed_data(tiny, tmp_path, capsys):
    data = tmp_path / "digits.npz"
    images, labels = digits()
    np.savez(data, images=images, labels=labels)
    first = fit_folder(replace(tiny, method="paws", data=str(data)))
    np.savez(data, images=images[::-1], labels=labels[::-1])
    assert main(["finetune", str(first.path)]) == 2
    assert "other data" in capsys.readouterr().err
    np.savez(tmp_path / "moved.npz", images=images, labels=labels)
    assert main(["finetune", str(first.path), "--data", str(tmp_path / "moved.npz")]) == 0
    assert np.array_equal(RunFolder(f"{first.path}-finetuned").labelled(), first.labelled())


@pytest.mark.slow
def test_finetune_trains_on_the_labels_of_the_run(tiny):
    first = fit_folder(replace(tiny, method="paws", steps=40))
    assert main(["finetune", str(first.path), "--optimizer.lr", "0.05"]) == 0
    tuned = RunFolder(f"{first.path}-finetuned")
    assert np.array_equal(tuned.labelled(), first.labelled())
    config = tuned.config
    assert (config.method, config.steps, config.batch.labelled, config.optimizer.lr) == ("supervised", 50, 40, 0.05)
    result = json.loads((tuned.path / "result.json").read_text())
    assert result["averaged"] == result["raw"]
    assert result["averaged"]["accuracy"] > 0.5


def test_finetune_rejects_bad_options(tiny, tmp_path, capsys):
    folder = str(fit_folder(replace(tiny, method="paws", steps=1)).path)
    for words, message in (
        ([folder, "--views.labelled", "week"], "Did you mean 'weak'"),
        ([folder, "--method", "uda"], "there is no option --method"),
        ([str(tmp_path)], "is not a run folder"),
    ):
        assert main(["finetune", *words]) == 2
        assert message in capsys.readouterr().err


def test_run_folder_lock_excludes_a_second_process(tiny):
    folder = fit_folder(tiny)
    with folder.locked(), pytest.raises(UserError, match="another process is training in"):
        fit_folder(tiny, resume=True)
    fit_folder(tiny, resume=True)


def test_run_folder_lock_removes_half_written_files(tiny):
    folder = fit_folder(tiny)
    (folder.path / ".checkpoint.pt.x1y2").write_bytes(b"half")
    (folder.path / ".checkpoint-best.pt.z3").mkdir()
    (folder.path / ".notes.txt").write_text("mine")
    with folder.locked():
        assert {path.name for path in folder.path.glob(".*")} == {".lock", ".notes.txt"}


@pytest.mark.slow
def test_run_folder_keeps_two_checkpoints_and_the_best(tiny):
    folder = fit_folder(replace(tiny, steps=40))
    best = max(folder.history(), key=lambda row: row["accuracy"])
    steps = {name: read_checkpoint(folder.path / f"checkpoint{name}.pt")["step"] for name in ("", "-previous", "-best")}
    assert steps == {"": 40, "-previous": 36, "-best": best["step"]}


def test_fit_on_a_full_disk_keeps_the_previous_checkpoint(tiny, tmp_path):
    """A limit on the file size stands for a full disk: it fails in the middle of a write too."""
    resource = pytest.importorskip("resource")
    folder = fit_folder(replace(tiny, steps=8)).path
    state = read_checkpoint(folder / "checkpoint.pt")
    size = (folder / "checkpoint.pt").stat().st_size
    (folder / "checkpoint.pt").replace(folder / "checkpoint-previous.pt")
    write_checkpoint(folder / "checkpoint.pt", state | {"step": 4})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1000, before[1]))
        with pytest.raises(UserError, match=r"cannot write .*checkpoint\.pt"):
            fit_folder(replace(tiny, steps=8, out=str(tmp_path / "other"), seed=1))
        with pytest.raises(UserError, match="cannot write"):
            fit_folder(replace(tiny, steps=8), resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "other" / "checkpoint.pt").exists()
    assert read_checkpoint(folder / "checkpoint-previous.pt")["step"] == 4


@pytest.mark.parametrize("method", ["bam-uda", "bam-paws+ema"])
def test_fit_in_mixed_precision_keeps_float32_weights(tiny, method):
    weights = fit_folder(replace(tiny, method=method, precision="bf16-mixed")).weights()
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    assert {tensor.dtype for tensor in weights.values()} <= {torch.float32, torch.int64}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bam-uda", "paws"])
def test_fit_compiled_equals_eager(tiny, method, monkeypatch):
    """Without the compiler's last stage, which writes C++ and takes half a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    config = replace(tiny, method=method, precision="64")
    found = [fit_folder(replace(config, compile=which, out=f"{tiny.folder}-{which}")) for which in (False, True)]
    torch.testing.assert_close(found[1].weights(), found[0].weights(), rtol=0, atol=1e-9)
    assert found[1].config.compile


@pytest.mark.parametrize(
    ("device", "able", "network", "precision"),
    [
        ("cpu", {"avx512_bf16": True}, "wrn-10-1", "bf16-mixed"),
        ("cpu", {"avx512_bf16": False, "amx_bf16": True}, "resnet-18", "bf16-mixed"),
        ("cpu", {"avx512_bf16": True}, "mlp-2-128", "32"),
        ("cpu", {"avx512_bf16": True}, "custom", "32"),
        ("cpu", {"avx512_bf16": False, "avx2": True}, "wrn-10-1", "32"),
        ("cpu", None, "wrn-10-1", "32"),
        ("cuda", 8, "mlp-2-128", "bf16-mixed"),
        ("cuda", 7, "wrn-10-1", "32"),
    ],
)
def test_resolve_chooses_precision_and_compile_by_device(tiny, monkeypatch, device, able, network, precision):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (able, 0))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    if able is None:  # an older version of torch
        monkeypatch.delattr(torch.cpu, "get_capabilities")
    config = build.resolve(replace(tiny, device=device, precision="auto", network=replace(tiny.network, name=network)))
    assert (config.precision, config.compile) == (precision, device == "cuda")
