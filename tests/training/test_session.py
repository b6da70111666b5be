import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.run import Optimizer
from surelabel.training import build
from surelabel.training.checkpoints import read_checkpoint
from surelabel.training.run_folder import RunFolder
from surelabel.training.session import DivergenceGuard, Stopwatch
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder, initial_state, loader_of


def test_stopwatch_writes_one_row_per_evaluation(tiny):
    folder = fit_folder(tiny)
    lines = [json.loads(line) for line in (folder.path / "timings.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert all(line["images_per_second"] > 0 for line in lines)
    assert {"views", "training", "evaluation"} <= set(lines[0])
    assert [line["steps"] for line in lines] == [4, 4, 4]
    assert all(line["stepping"] == pytest.approx(line["views"] + line["training"]) for line in lines)


def test_stopwatch_waits_for_the_gpu(tiny, monkeypatch):
    """Launching a step takes little time; waiting for all of them takes more."""
    clock = [0.0]

    def wait(seconds):
        clock[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: wait(5))
    laps = {}
    for device in ("cpu", "cuda"):
        stopwatch = Stopwatch(replace(tiny, steps=5, device=device, evaluation=replace(tiny.evaluation, every=5)))
        for step in range(1, 6):
            wait(0.25)
            stopwatch.step(8, step)
        wait(2)
        laps[device] = stopwatch.lap()
    assert (laps["cpu"]["stepping"], laps["cuda"]["stepping"]) == (1.25, 6.25)
    assert (laps["cpu"]["training"], laps["cuda"]["training"]) == (1.25, 6.25)
    assert all(lap["evaluation"] == 2 and lap["steps"] == 5 for lap in laps.values())


@pytest.mark.parametrize("check_every", [1, 3])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_divergence_guard_names_the_step(tiny, digits_data, tmp_path, check_every, bad):
    config = build.resolve(tiny)
    state = initial_state(config, digits_data)
    guard = DivergenceGuard(config, state, loader_of(config, digits_data), RunFolder(tmp_path))
    guard.check_every = check_every
    with pytest.raises(UserError, match=rf"the loss became {bad} at step 8,.*smaller optimizer\.lr"):
        for state.step, loss in ((7, 1.0), (8, bad), (9, 1.0), (10, 1.0)):
            guard.record(torch.tensor(loss))


def test_divergence_without_a_test_set_is_not_saved(tiny, tmp_path):
    stored = dict(np.load(tiny.data))
    np.savez(tmp_path / "train.npz", images=stored["images"], labels=stored["labels"])
    config = replace(tiny, data=str(tmp_path / "train.npz"), optimizer=Optimizer(lr=1e38), steps=1)
    with pytest.raises(UserError, match=r"the predictions became nan at step 1,.*no checkpoint yet"):
        fit_folder(config)
    assert not (config.folder / "checkpoint.pt").exists()


def test_divergence_keeps_the_last_good_checkpoint(tiny):
    config = replace(tiny, optimizer=Optimizer(lr=20), evaluation=replace(tiny.evaluation, every=5))
    with pytest.raises(UserError, match="keeps its last good checkpoint") as raised:
        fit_folder(config)
    assert int(re.search(r"became (?:nan|inf) at step (\d+)", str(raised.value))[1]) > 5
    kept = read_checkpoint(config.folder / "checkpoint.pt")
    assert kept["step"] == 5
    assert all(torch.isfinite(tensor).all() for tensor in kept["network"].values())
