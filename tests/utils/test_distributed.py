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
import torch.distributed as dist
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel

from surelabel.config.run import Network, Optimizer
from surelabel.config.settings import to_yaml
from surelabel.config.validate import validate
from surelabel.methods.base import Pool
from surelabel.training import build, build_data
from surelabel.training.checkpoints import read_checkpoint
from surelabel.training.loop import training_step
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from tests.conftest import PATIENCE, signalled
from tests.helpers.runs import fit_folder

METHODS = ["fixmatch", "bam-uda", "paws", "bam-paws+ema", "bam-flexmatch", "adamatch", "freematch", "dash", "softmatch"]
DIVIDED_BY_BATCH = ["bam-fixmatch", "bam-paws"]  # the KL term, as the released code has it
CALIBRATED = ["label-smoothing", "margin-penalty", "mixup", "mc-dropout", "last-layer-ensemble"]  # laplace is uda
STEPS = 8


def exact(tiny, method):
    """A run that does not depend on how a batch is split: no BatchNorm, float64."""
    network = Network("wrn-10-1", norm="group")
    lars = Optimizer(lr=0.2, nesterov=False, lars_trust=0.02)
    return build.resolve(
        replace(tiny, method=method, network=network, precision="64", optimizer=lars, forward=None, device="cpu")
    )


def losses(run, data, world, wrap):
    """The global losses of the first steps, and the gradient of the first."""
    method = build.build_method(run, len(data.train))
    loader = replace(build.build_loader(run, data, build_data.build_split(run, data)), world=world)
    state = build.build_state(run, build.build_network(run, build_data.task_of(data)), method, Pool.of(loader))
    model = wrap(state.network).train()
    found = []
    for _ in range(STEPS):
        of = training_step(method, model, state, loader(state.step), torch.autograd.backward)
        found.append(world.sum(of.total.detach()).item() / world.size)
    return found, torch.cat([parameter.detach().flatten() for parameter in state.network.parameters()])


def one_of_two(rank, runs, data, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for run in runs:
        found = losses(run, data, World(rank, 2), DistributedDataParallel)
        torch.save(found, f"{folder}/{run.method}-{run.calibrator}-{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_have_the_losses_of_one(tiny, digits_data, tmp_path):
    mean = replace(tiny, head=replace(tiny.head, kl="mean"))
    runs = [exact(tiny, method) for method in METHODS] + [exact(mean, method) for method in DIVIDED_BY_BATCH]
    runs += [exact(replace(tiny, calibrator=name), "uda") for name in CALIBRATED]
    multiprocessing.spawn(one_of_two, (runs, digits_data, str(tmp_path)), nprocs=2)
    for run in runs:
        expected, weights = losses(run, digits_data, World(), lambda network: network)
        for rank in (0, 1):
            found, theirs = torch.load(tmp_path / f"{run.method}-{run.calibrator}-{rank}.pt", weights_only=True)
            name = f"{run.method} {run.calibrator}"
            np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0, err_msg=name)
            torch.testing.assert_close(theirs, weights, atol=1e-9, rtol=0)
        assert max(expected) - min(expected) > 1e-3


def one_of_two_with_batch_norm(rank, runs, data, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for run in runs:
        method = build.build_method(run, len(data.train))
        loader = replace(build.build_loader(run, data, build_data.build_split(run, data)), world=World(rank, 2))
        state = build.build_state(run, build.build_network(run, build_data.task_of(data)), method, Pool.of(loader))
        model = DistributedDataParallel(state.network).train()
        for _ in range(3):
            training_step(method, model, state, loader(state.step), torch.autograd.backward)
        torch.save(state.state_dict(), f"{folder}/{run.method}-{rank}.pt")
        del model  # freed after its process group, it can deadlock
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_share_batch_norm_statistics(tiny, digits_data, tmp_path):
    runs = [build.resolve(replace(tiny, method=method)) for method in ("uda", "bam-fixmatch+ema", "paws+swa")]
    multiprocessing.spawn(one_of_two_with_batch_norm, (runs, digits_data, str(tmp_path)), nprocs=2)
    for run in runs:
        states = [torch.load(tmp_path / f"{run.method}-{rank}.pt", weights_only=True) for rank in (0, 1)]
        for part in ("network", "average", "optimizers", "selection"):
            torch.testing.assert_close(*[state[part] for state in states], rtol=0, atol=0)
        norm = next(name for name in states[0]["network"] if name.endswith("running_var"))
        assert states[0]["network"][norm].std() > 0
        assert states[0]["running_sums"] != states[1]["running_sums"]


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


def test_batch_must_be_divisible_by_the_world_size(tiny, digits_data):
    with pytest.raises(UserError, match=r"batch\.labelled, 8, must be divisible by the number of processes, 3"):
        validate(replace(tiny, devices=3))
    with pytest.raises(UserError, match=r"paws\.unlabelled, 8, must be divisible by the number of processes, 3"):
        validate(replace(tiny, method="paws", devices=3))
    with pytest.raises(UserError, match="a support of 20 images"):
        build.build_loader(replace(tiny, method="paws", devices=8), digits_data, np.arange(40))
    # Of nine classes with labels; a tenth without has no part in it.
    some = np.flatnonzero(digits_data.train.labels[:60] < 9)
    with pytest.raises(UserError, match="a support of 18 images"):
        build.build_loader(replace(tiny, method="paws", devices=4), digits_data, some)
