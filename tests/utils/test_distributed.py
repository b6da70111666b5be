import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.run import Optimizer
from surelabel.config.settings import to_yaml
from surelabel.config.validate import validate
from surelabel.training import build
from surelabel.training.checkpoints import read_checkpoint
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from tests.conftest import PATIENCE, signalled
from tests.helpers.runs import fit_folder


def exact(tiny, method):
    """A run in float64, in which sums over processes round too little to be seen."""
    lars = Optimizer(lr=0.2, nesterov=False, lars_trust=0.02)
    return build.resolve(replace(tiny, method=method, precision="64", optimizer=lars, forward=None, device="cpu"))


def command(run, *arguments):
    config = run.folder.parent / "run.yaml"
    config.write_text(to_yaml(replace(run, out=None)))
    return [sys.executable, "-m", "surelabel.cli.main", "fit", "--config", str(config), *arguments]


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_resume_with_another_world_size_keeps_the_metrics(tiny, tmp_path):
    run = replace(exact(tiny, "bam-uda"), steps=24, threads=1)
    alone, both, script = tmp_path / "alone", tmp_path / "both", tmp_path / "stopping.py"
    script.write_text(signalled(6, signal.SIGTERM))
    begin = [sys.executable, str(script), *command(run, "--out", str(both), "--devices", "2")[3:]]
    stopped = subprocess.run(begin, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    assert stopped.stdout.count("Resume with: surelabel fit --resume") == 1
    fit_folder(replace(run, out=str(both)), resume=True)
    fit_folder(replace(run, out=str(alone)))
    for mine, theirs in zip(rows(both), rows(alone), strict=True):
        assert mine.keys() == theirs.keys()
        for key, value in theirs.items():
            assert mine[key] == pytest.approx(value, abs=1e-9), key


@pytest.mark.slow
def test_resume_of_two_ranks_is_bit_exact(tiny, tmp_path):
    """Stopped between evaluations, with BatchNorm: running sums and statistics are of all ranks."""
    accept_all = replace(tiny.selection, threshold=0.0)
    run = replace(build.resolve(replace(tiny, method="uda+ema", selection=accept_all)), devices=2)
    whole, stopped, script = tmp_path / "whole", tmp_path / "stopped", tmp_path / "stopping.py"
    script.write_text(signalled(6, signal.SIGTERM))
    subprocess.run(command(run, "--out", str(whole)), check=True, capture_output=True, timeout=PATIENCE)
    begin = [sys.executable, str(script), *command(run, "--out", str(stopped))[3:]]
    assert subprocess.run(begin, check=False, capture_output=True, timeout=PATIENCE).returncode == 128 + signal.SIGTERM
    assert read_checkpoint(stopped / "checkpoint.pt")["step"] == 10
    resume = [sys.executable, "-m", "surelabel.cli.main", "fit", "--resume", str(stopped), "--devices", "2"]
    subprocess.run(resume, check=True, capture_output=True, timeout=PATIENCE)
    assert rows(whole) == rows(stopped)
    for name in ("weights.safetensors", "weights-raw.safetensors", "result.json"):
        assert (whole / name).read_bytes() == (stopped / name).read_bytes(), name


def test_local_sum_splits_sums_of_any_world_size():
    parts = torch.tensor([1.0, 2.0, 4.0])
    assert [World(rank, 3).local_sum(parts).item() for rank in range(3)] == [1, 2, 4]
    assert [World(rank, 2).local_sum(parts).item() for rank in range(2)] == [3.5, 3.5]
    assert World().local_sum(parts).item() == 7
    assert World().local_sum(torch.tensor([0.1])).item() == torch.tensor(0.1).item()
    by_class = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    assert World(1, 2).local_sum(by_class).tolist() == [4, 8]
    assert World().local_sum(by_class).tolist() == [5, 10]


@pytest.mark.slow
def test_torchrun_starts_the_ranks(tiny, tmp_path):
    run = replace(exact(tiny, "paws"), steps=4, threads=1)
    alone, both = tmp_path / "alone", tmp_path / "both"
    fit_folder(replace(run, out=str(alone)))
    words = command(run, "--out", str(both), "--devices", "2")[1:]
    runner = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    done = subprocess.run(runner, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The run is in") == 1
    assert rows(both)[-1]["nll"] == pytest.approx(rows(alone)[-1]["nll"], abs=1e-9)


@pytest.mark.slow
def test_death_of_a_rank_ends_the_run_with_a_message(tiny, tmp_path):
    run = replace(tiny, steps=100_000, evaluation=replace(tiny.evaluation, every=20))
    started = subprocess.Popen(
        command(run, "--out", str(tmp_path / "run"), "--devices", "2"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "run" / "checkpoint.pt").exists():
        assert started.poll() is None
        time.sleep(0.01)
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
    if not children.exists():
        started.kill()
        pytest.skip("needs a Linux kernel that lists a process's children")
    other = children.read_text().split()[0]
    os.kill(int(other), signal.SIGKILL)
    _, said = started.communicate(timeout=PATIENCE)
    assert started.returncode != 0
    assert "another process of this run died" in said
    assert f"resume the run in {tmp_path / 'run'}" in said


def test_each_process_needs_a_sample(tiny, digits_data):
    with pytest.raises(UserError, match=r"batch\.labelled, 8, must be at least the number of processes, 9"):
        validate(replace(tiny, devices=9))
    with pytest.raises(UserError, match=r"paws\.unlabelled, 8, must be at least the number of processes, 9"):
        validate(replace(tiny, method="paws", devices=9))
    few = replace(tiny, method="paws", devices=8, paws=replace(tiny.paws, per_class=1))
    with pytest.raises(UserError, match=r"the support \(.*per_class\), 7, must be at least"):
        build.build_loader(few, digits_data, np.flatnonzero(digits_data.train.labels[:60] < 7))


def test_shares_are_whole_units():
    worlds = [World(rank, 3).divided(8) for rank in range(3)]
    assert [world.shares for world in worlds] == [[2, 3, 3]] * 3
    assert [world.rows(16) for world in worlds] == [slice(0, 4), slice(4, 10), slice(10, 16)]
    assert [world.total(own) for world, own in zip(worlds, (4, 6, 6), strict=True)] == [16] * 3
    assert [world.first(own) for world, own in zip(worlds, (4, 6, 6), strict=True)] == [0, 4, 10]
    assert [world.weight for world in worlds] == [0.75, 1.125, 1.125]
    assert World(1, 2).rows(8) == slice(4, 8)
    assert World().rows(5) == World().divided(5).rows(5) == slice(0, 5)
