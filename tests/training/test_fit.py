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


def test_the_folder_holds_all_that_the_run_was(tiny):
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


def test_an_existing_folder_is_refused_and_left_alone(tiny):
    tiny.folder.mkdir()
    (tiny.folder / "thesis.txt").write_text("all of it")
    with pytest.raises(UserError, match=r"run exists already: choose another folder, or remove it$"):
        fit_folder(tiny)
    assert [path.name for path in tiny.folder.iterdir()] == ["thesis.txt"]
    (tiny.folder / "config.yaml").touch()
    with pytest.raises(FolderExists) as told:
        fit_folder(tiny)
    assert told.value.begun


def test_a_folder_that_cannot_be_made_is_told_before_the_data_are_read(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.training.build_data.load_data", None)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"cannot write .*file/inner/run: Not a directory. Choose another folder"):
        fit_folder(replace(tiny, out=str(tmp_path / "file" / "inner" / "run")))
    with pytest.raises(UserError, match=r"cannot write .*: File name too long"):
        fit_folder(replace(tiny, out=str(tmp_path / ("long" * 100))))
    asked = []

    def refused(suffix=None, prefix=None, dir=None):  # as on a file system that is read-only, also for root
        asked.append(str(dir))
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    with pytest.raises(UserError, match=r"cannot write .*not/yet/run: Operation not permitted"):
        fit_folder(replace(tiny, out=str(tmp_path / "not" / "yet" / "run")))
    assert asked == [str(tmp_path)]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_only_the_first_of_several_processes_asks_whether_it_can_write(tiny, monkeypatch):
    monkeypatch.setattr("surelabel.training.build_data.load_data", lambda *_: pytest.fail("has come to the data"))
    monkeypatch.setattr(RunFolder, "check_writable", lambda self: pytest.fail("has tried to write"))
    for rank, words in ((0, "has tried to write"), (1, "has come to the data")):
        monkeypatch.setattr("surelabel.training.fit.rank_zero_only.rank", rank)
        with pytest.raises(pytest.fail.Exception, match=words):
            fit_folder(tiny)


def test_a_folder_that_can_no_longer_be_made_when_training_begins_is_told(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "check_writable", lambda self: None)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"cannot write .*file/run: .*Choose another folder"):
        fit_folder(replace(tiny, out=str(tmp_path / "file" / "run"), steps=1))


def test_a_mistake_in_the_request_leaves_no_folder(tiny):
    for change in ({"labels": 7}, {"labels": 100_000}, {"data": "nowhere.npz"}):
        with pytest.raises(UserError):
            fit_folder(replace(tiny, **change))
        assert not tiny.folder.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_resumed_run_ends_bit_for_bit_as_an_uninterrupted_one(number, tiny, tmp_path):
    config, whole, stopped = tmp_path / "run.yaml", tmp_path / "whole", tmp_path / "stopped"
    config.write_text(to_yaml(tiny))
    words = ["fit", "--config", str(config), "--out", str(stopped)]
    done = subprocess.run(
        [sys.executable, "-c", signalled(6, number), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 128 + number, done.stderr
    assert f"surelabel fit --resume {stopped}" in done.stdout
    assert read_checkpoint(stopped / "checkpoint.pt")["step"] == 6
    assert main([*words, "--resume", "auto"]) == 0
    fit_folder(replace(tiny, out=str(whole)))
    for name in ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json"):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes(), name


def test_a_run_goes_on_only_with_its_own_settings(tiny):
    fit_folder(tiny)
    fit_folder(replace(tiny, threads=None), resume=True)
    with pytest.raises(UserError, match=r"begun with optimizer\.lr 0\.03, and is now asked for with 0\.5"):
        fit_folder(replace(tiny, optimizer=replace(tiny.optimizer, lr=0.5)), resume=True)
    with pytest.raises(UserError, match="the learning rate falls along a cosine"):
        fit_folder(replace(tiny, steps=100), resume=True)
    with pytest.raises(UserError, match="the learning rate falls along a cosine"):
        fit_options(["--resume", str(tiny.folder), "--steps", "100"])


@pytest.mark.parametrize(
    "asked",
    [
        ["--method", "fixmatch+ema", "--weak_norm", "batch"],  # which a teacher takes for batch-kept
        ["--method", "fixmatch+ema", "--fidelity", "released"],  # whose joint pass a teacher cannot have
        ["--method", "bam-paws"],
    ],
    ids=" ".join,
)
def test_the_same_command_goes_on_though_a_folder_is_named_as_its_data(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "phc").mkdir()
    small = ["--steps", "2", "--network.name", "wrn-10-1", "--threads", "1", "--out", "run", "--resume", "auto"]
    small += ["--paws.unlabelled", "4", "--paws.per_class", "1"] if "bam-paws" in asked else ["--batch.labelled", "4"]
    for _ in range(2):
        assert main(["fit", *asked, *small]) == 0, capsys.readouterr().err
    assert "Resuming at step 2" in capsys.readouterr().out


def test_a_run_goes_on_though_its_data_have_moved_and_a_link_stands_where_they_were(tiny, tmp_path):
    data = tmp_path / "data.npz"
    shutil.copy(tiny.data, data)
    run = replace(tiny, data=str(data))
    fit_folder(run)
    data.rename(tmp_path / "elsewhere.npz")
    data.symlink_to(tmp_path / "elsewhere.npz")
    fit_folder(run, resume=True)


def test_what_is_left_open_to_the_machine_is_as_the_run_has_it(tiny, monkeypatch):
    """A run that was begun where networks are compiled, say, goes on where they usually are not."""
    fit_folder(replace(tiny, precision="64"))
    assert build.resolve(tiny).precision == "32"
    assert fit_folder(tiny, resume=True).config.precision == "64"
    with pytest.raises(UserError, match="was begun with precision 64, and is now asked for with 32"):
        fit_folder(replace(tiny, precision="32"), resume=True)


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_used(tiny, capsys):
    folder = fit_folder(tiny)
    expected = (folder.path / "weights.safetensors").read_bytes()
    newest = folder.path / "checkpoint.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    fit_folder(tiny, resume=True)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "checkpoint.pt is damaged: its checksum is wrong" in said
    assert "step 8" in said
    assert (folder.path / "weights.safetensors").read_bytes() == expected

    for name in ("checkpoint.pt", "checkpoint-previous.pt"):
        (folder.path / name).write_bytes(b"")
    with pytest.raises(UserError, match="nothing to go on from"):
        fit_folder(tiny, resume=True)


def test_a_checkpoint_that_would_run_code_is_not_loaded(tiny, tmp_path):
    folder = fit_folder(tiny)
    trap = tmp_path / "trapped"
    for name in ("checkpoint.pt", "checkpoint-previous.pt"):
        torch.save({"step": Trap(str(trap))}, folder.path / name)
    with pytest.raises(UserError, match="nothing to go on from"):
        fit_folder(tiny, resume=True)
    assert not trap.exists()


class Trap:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("change", ["shuffled", "fewer", "classes"])
def test_a_run_does_not_go_on_with_other_data(tiny, tmp_path, change):
    data = tmp_path / "data.npz"
    stored = dict(np.load(tiny.data))
    np.savez(data, **stored)
    run = replace(tiny, data=str(data))
    fit_folder(run)
    if change == "shuffled":
        stored["images"] = stored["images"][::-1]
    elif change == "fewer":
        stored |= {"images": stored["images"][:1000], "labels": stored["labels"][:1000]}
    else:
        stored["classes"] = np.array([f"digit {k}" for k in range(10)])
    np.savez(data, **stored)
    with pytest.raises(UserError, match="begun with other data"):
        fit_folder(run, resume=True)
    with pytest.raises(UserError, match="begun with other data"):
        load(run.folder).evaluate()


def test_what_the_views_cannot_be_applied_to_leaves_no_folder(tiny, tmp_path):
    stored = {
        name: array.astype(np.float32) if "images" in name else array for name, array in np.load(tiny.data).items()
    }
    np.savez(tmp_path / "float.npz", **stored)
    run = replace(tiny, data=str(tmp_path / "float.npz"))
    with pytest.raises(UserError, match=r"--views\.strong"):
        fit_folder(run)
    assert not run.folder.exists()
    fit_folder(replace(run, views=replace(run.views, strong="weak")))


def test_without_git_a_run_has_no_commit(tiny, monkeypatch):
    monkeypatch.setenv("PATH", "")
    folder = fit_folder(tiny)
    assert json.loads((folder.path / "environment.json").read_text())["commit"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("method", "step"), [("fixmatch", 2), ("uda", 7), ("supervised", 12), ("paws+ema", 6), ("bam-paws+swa", 7)]
)
def test_a_run_stopped_at_any_step_ends_as_one_that_was_not(tiny, tmp_path, monkeypatch, number, method, step):
    """Between evaluations, at one, and at the end: the sums since the last evaluation are part of the state."""
    whole = fit_folder(replace(tiny, method=method, out=str(tmp_path / "whole")))
    shown = Display.step

    def stop_at(self, now):
        shown(self, now)
        if now == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Display, "step", stop_at)
    run = replace(tiny, method=method)
    with pytest.raises(Stopped) as stopped:
        fit_folder(run)
    assert stopped.value.exit_code == 128 + number
    assert torch.load(run.folder / "checkpoint.pt", weights_only=True)["step"] == step
    monkeypatch.setattr(Display, "step", shown)
    resumed = fit_folder(run, resume=True)
    for name in ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json"):
        assert (whole.path / name).read_bytes() == (resumed.path / name).read_bytes(), name


def test_a_teacher_starts_from_that_backbone_too_and_the_threads_stay_the_runs_own(tiny, tmp_path, monkeypatch):
    first = fit_folder(replace(tiny, method="bam-uda", threads=2, steps=1))
    seen = []

    def remember(run, method, loader, state, *rest):
        seen.append((state, torch.get_num_threads()))

    monkeypatch.setattr("surelabel.training.fit.train_and_save", remember)
    monkeypatch.setattr("surelabel.training.fit._tested", lambda trained, console: trained)
    fit_folder(replace(tiny, method="paws+ema", init=str(first.path), out=str(tmp_path / "later")))
    (state, threads), stored = seen[0], first.weights()
    assert threads == 1
    for network in state.networks:
        weights = network.state_dict()
        assert all(torch.equal(stored[name], weights[name]) for name in weights if name.startswith("backbone."))


def test_finetuning_refuses_data_that_have_changed(tiny, tmp_path, capsys):
    data = tmp_path / "own.npz"
    images, labels = digits()
    np.savez(data, images=images, labels=labels)
    first = fit_folder(replace(tiny, method="paws", data=str(data)))
    np.savez(data, images=images[::-1], labels=labels[::-1])
    assert main(["finetune", str(first.path)]) == 2
    assert "was begun with other data" in capsys.readouterr().err
    np.savez(tmp_path / "moved.npz", images=images, labels=labels)
    assert main(["finetune", str(first.path), "--data", str(tmp_path / "moved.npz")]) == 0
    assert np.array_equal(RunFolder(f"{first.path}-finetuned").labelled(), first.labelled())


def test_finetuning_teaches_a_linear_head_by_the_labels_of_the_run(tiny, capsys):
    first = fit_folder(replace(tiny, method="paws", steps=40))
    assert main(["finetune", str(first.path), "--optimizer.lr", "0.05"]) == 0
    tuned = RunFolder(f"{first.path}-finetuned")
    assert np.array_equal(tuned.labelled(), first.labelled())
    run = tuned.config
    assert (run.method, run.steps, run.batch.labelled, run.optimizer.lr) == ("supervised", 50, 40, 0.05)
    result = json.loads((tuned.path / "result.json").read_text())
    assert result["averaged"] == result["raw"]
    assert result["averaged"]["accuracy"] > 0.5
    capsys.readouterr()
    assert main(["finetune", str(first.path), "--views.labelled", "week"]) == 2
    assert "Did you mean 'weak'" in capsys.readouterr().err
    assert main(["finetune", str(first.path), "--method", "uda"]) == 2
    assert "there is no option --method" in capsys.readouterr().err
    assert main(["finetune", str(first.path.parent)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_second_process_in_the_same_folder_is_refused(tiny):
    folder = fit_folder(tiny)
    with folder.locked(), pytest.raises(UserError, match="another process is training in"):
        fit_folder(tiny, resume=True)
    fit_folder(tiny, resume=True)


def test_what_a_killed_process_left_half_written_is_removed_and_nothing_else(tiny):
    folder = fit_folder(tiny)
    (folder.path / ".checkpoint.pt.x1y2").write_bytes(b"half")
    (folder.path / ".checkpoint-best.pt.z3").mkdir()
    (folder.path / ".notes.txt").write_text("mine")
    with folder.locked():
        assert {path.name for path in folder.path.glob(".*")} == {".lock", ".notes.txt"}


def test_the_last_two_checkpoints_and_the_most_accurate_one_are_kept(tiny):
    folder = fit_folder(replace(tiny, steps=40))
    rows = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    best = max(rows, key=lambda row: row["accuracy"])
    steps = {name: read_checkpoint(folder.path / f"checkpoint{name}.pt")["step"] for name in ("", "-previous", "-best")}
    assert steps == {"": 40, "-previous": 36, "-best": best["step"]}


@pytest.mark.parametrize("part", ["torch", "processor"])
def test_another_torch_or_processor_is_said(tiny, capsys, part):
    path = fit_folder(tiny).path / "environment.json"
    environment = json.loads(path.read_text())
    path.write_text(json.dumps(environment | {part: "another"}))
    fit_folder(tiny, resume=True)
    words = f"begun with {part} another, and goes on with {environment[part]}: not bit for bit"
    assert words in capsys.readouterr().out.replace("\n", " ")


def test_another_number_of_threads_is_said_and_used(tiny, capsys):
    fit_folder(tiny)
    fit_folder(replace(tiny, threads=2), resume=True)
    assert "begun with --threads 1, and goes on with 2" in capsys.readouterr().out.replace("\n", " ")
    assert torch.get_num_threads() == 2


def test_a_disk_that_fills_up_stops_the_run_and_leaves_the_earlier_checkpoint_good(tiny, tmp_path):
    """A limit on the size of files stands for a full disk: it fails in the same place, in the middle of a write."""
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
    # A run that already has a checkpoint keeps it.
    assert read_checkpoint(folder / "checkpoint-previous.pt")["step"] == 4


@pytest.mark.parametrize("method", ["bam-uda", "bam-paws+ema"])
def test_mixed_precision_trains(tiny, method):
    folder = fit_folder(replace(tiny, method=method, precision="bf16-mixed"))
    weights = folder.weights()
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    assert {tensor.dtype for tensor in weights.values()} <= {torch.float32, torch.int64}


@pytest.mark.parametrize("method", ["bam-uda", "paws"])
def test_a_compiled_network_trains_as_the_bare_one(tiny, method, monkeypatch):
    """The compiler's own tracing and differentiation; its last stage, which writes C++, takes half a minute."""
    compiled = partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", compiled)
    run = replace(tiny, method=method, precision="64")
    found = [fit_folder(replace(run, compile=which, out=f"{tiny.folder}-{which}")) for which in (False, True)]
    torch.testing.assert_close(found[1].weights(), found[0].weights(), rtol=0, atol=1e-9)
    assert found[1].config.compile


def test_a_cpu_is_asked_for_neither_mixed_precision_nor_compiling(tiny):
    run = build.resolve(replace(tiny, device="cpu"))
    assert (run.precision, run.compile) == ("32", False)


def test_a_recent_gpu_mixes_precisions_and_compiles(tiny, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    run = build.resolve(replace(tiny, device="cuda"))
    assert (run.precision, run.compile) == ("bf16-mixed", True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    assert build.resolve(replace(tiny, device="cuda")).precision == "32"
