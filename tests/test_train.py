import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel import build, build_data
from surelabel.config import Average, Optimizer
from surelabel.errors import UserError
from surelabel.fit import fit
from surelabel.runfolder import RAW, RunFolder
from surelabel.train import Health, Stopwatch
from tests.conftest import digits


def rows(folder: RunFolder):
    return [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", ["supervised", "fixmatch"])
def test_two_runs_with_one_seed_are_bit_identical_and_another_seed_is_not(tiny, tmp_path, method):
    first, again, other = (
        fit(replace(tiny, method=method, out=str(tmp_path / name), seed=seed))
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert (first.path / "weights.safetensors").read_bytes() == (again.path / "weights.safetensors").read_bytes()
    assert (first.path / "metrics.jsonl").read_bytes() == (again.path / "metrics.jsonl").read_bytes()
    assert (first.path / "weights.safetensors").read_bytes() != (other.path / "weights.safetensors").read_bytes()


def test_a_line_of_metrics_has_every_figure(tiny):
    lines = rows(fit(tiny))
    assert [line["step"] for line in lines] == [4, 8, 12]
    asked = {"accuracy", "ece", "nll", "brier", "raw_accuracy", "raw_ece", "purity", "acceptance", "pool_confidence"}
    for line in lines:
        assert asked <= set(line)
        assert line["samples"] == 100
        assert 0 <= line["acceptance"] <= 1
        assert line["labelled_loss"] > 0


def test_purity_is_null_where_the_pools_labels_are_unknown_and_acceptance_stays(tiny, tmp_path):
    accept_all = replace(tiny, selection=replace(tiny.selection, threshold=0.0))
    line = rows(fit(accept_all))[-1]
    assert line["acceptance"] == 1
    assert 0 <= line["purity"] <= 1

    stored = dict(np.load(tiny.data))
    stored["labels"][200:] = -1
    np.savez(tmp_path / "few.npz", **stored)
    few = replace(accept_all, data=str(tmp_path / "few.npz"), labels="all", out=str(tmp_path / "few"))
    # With this seed, the one image of the pool that the only step sees has no label.
    line = rows(fit(replace(few, steps=1, batch=replace(tiny.batch, labelled=2, ratio=1))))[-1]
    assert line["acceptance"] == 1
    assert line["purity"] is None
    assert rows(fit(replace(tiny, method="supervised", out=tiny.out + "-supervised")))[-1]["purity"] is None


def test_timings_lie_beside_the_metrics(tiny):
    folder = fit(tiny)
    lines = [json.loads(line) for line in (folder.path / "timings.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert all(line["images_per_second"] > 0 for line in lines)
    assert {"views", "training", "evaluation"} <= set(lines[0])
    assert [line["steps"] for line in lines] == [4, 4, 4]
    assert all(line["stepping"] >= line["views"] + line["training"] for line in lines)


def test_what_a_gpu_has_still_to_do_at_the_end_of_a_lap_is_time_of_its_steps(monkeypatch):
    """Launching a step takes no time; waiting for all of them does."""
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: time.sleep(0.05))
    laps = {}
    for device in ("cpu", "cuda"):
        watch = Stopwatch(device)
        for _ in range(5):
            with watch.part("training"):
                watch.steps += 1
        with watch.evaluation():
            time.sleep(0.02)
        laps[device] = watch.lap()
    assert laps["cpu"]["stepping"] < 0.05 <= laps["cuda"]["stepping"]
    assert laps["cuda"]["training"] >= 0.05
    assert all(0.02 <= lap["evaluation"] < 0.05 and lap["steps"] == 5 for lap in laps.values())


@pytest.mark.parametrize("look_every", [1, 3])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_finite_number_is_told_with_its_step(tiny, digits_data, tmp_path, look_every, bad):
    run = build.resolve(tiny)
    state = build.build_state(run, build.build_network(run, build_data.task_of(digits_data)), build.build_method(run))
    loader = build.build_loader(run, digits_data, build_data.build_split(run, digits_data))
    health = Health(run, state, loader, RunFolder(tmp_path))
    health.look_every = look_every
    with pytest.raises(UserError, match=rf"the loss became {bad} at step 8,.*smaller --optimizer\.lr"):
        for state.step, loss in ((7, 1.0), (8, bad), (9, 1.0), (10, 1.0)):
            health.note(torch.tensor(loss))


@pytest.mark.parametrize("method", ["fixmatch", "paws"])
def test_a_run_without_a_test_set_trains_and_saves(tiny, tmp_path, method):
    images, labels = digits()
    np.savez(tmp_path / "train.npz", images=images, labels=labels)
    folder = fit(replace(tiny, method=method, data=str(tmp_path / "train.npz")))
    assert (folder.path / "weights.safetensors").exists()


def test_a_run_without_a_test_set_does_not_save_what_diverged(tiny, tmp_path):
    stored = dict(np.load(tiny.data))
    np.savez(tmp_path / "train.npz", images=stored["images"], labels=stored["labels"])
    run = replace(tiny, data=str(tmp_path / "train.npz"), optimizer=Optimizer(lr=1e38), steps=1)
    with pytest.raises(
        UserError, match=r"the predictions became nan at step 1, and the run stopped.*no checkpoint yet"
    ):
        fit(run)
    assert not (run.folder / "checkpoint.pt").exists()


def test_a_run_that_diverges_stops_and_keeps_its_last_good_checkpoint(tiny):
    run = replace(tiny, optimizer=Optimizer(lr=20), evaluation=replace(tiny.evaluation, every=5))
    with pytest.raises(
        UserError, match=r"became (nan|inf) at step \d+, and the run stopped; .* keeps its last good checkpoint"
    ) as told:
        fit(run)
    assert int(re.search(r"step (\d+)", str(told.value))[1]) > 5
    kept = torch.load(run.folder / "checkpoint.pt", weights_only=True)
    assert kept["step"] == 5
    assert all(torch.isfinite(tensor).all() for tensor in kept["network"].values())


def test_evaluated_are_the_averaged_weights_with_the_raw_beside_them(tiny):
    folder = fit(replace(tiny, average=Average(decay=1.0)))
    averaged, raw = folder.weights(), folder.weights(RAW)
    assert not torch.equal(averaged["head.weight"], raw["head.weight"])
    result = json.loads((folder.path / "result.json").read_text())
    assert result["averaged"] != result["raw"]
    assert result["samples"] == 397
    assert sum(row["count"] for row in result["classes"]) == 397


def test_it_learns(tiny):
    """40 labels of ten digits: far better than chance, in seconds."""
    folder = fit(
        replace(tiny, steps=150, batch=replace(tiny.batch, labelled=16), evaluation=replace(tiny.evaluation, every=0.2))
    )
    assert json.loads((folder.path / "result.json").read_text())["averaged"]["accuracy"] > 0.6
