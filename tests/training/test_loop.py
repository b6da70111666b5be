import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.run import Average, Head, Optimizer
from surelabel.training import build, build_data
from surelabel.training.loop import training_step
from surelabel.training.run_folder import RAW
from tests.conftest import digits
from tests.helpers.runs import fit_folder


@pytest.mark.slow
@pytest.mark.parametrize("method", ["supervised", "fixmatch"])
def test_train_is_determined_by_the_seed(tiny, tmp_path, method):
    first, again, other = (
        fit_folder(replace(tiny, method=method, out=str(tmp_path / name), seed=seed))
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert (first.path / "weights.safetensors").read_bytes() == (again.path / "weights.safetensors").read_bytes()
    assert (first.path / "metrics.jsonl").read_bytes() == (again.path / "metrics.jsonl").read_bytes()
    assert (first.path / "weights.safetensors").read_bytes() != (other.path / "weights.safetensors").read_bytes()


def test_train_writes_all_metrics(tiny):
    lines = fit_folder(tiny).history()
    assert [line["step"] for line in lines] == [4, 8, 12]
    asked = {"accuracy", "ece", "nll", "brier", "raw_accuracy", "raw_ece", "purity", "acceptance"}
    asked |= {"effective_classes", "pool_confidence"}
    for line in lines:
        assert asked <= set(line)
        assert line["samples"] == 100
        assert 0 <= line["acceptance"] <= 1
        assert (line["effective_classes"] is None) == (line["acceptance"] == 0)
        assert line["labelled_loss"] > 0


def test_train_writes_no_purity_without_labels(tiny, tmp_path):
    accept_all = replace(tiny, selection=replace(tiny.selection, threshold=0.0))
    line = fit_folder(accept_all).history()[-1]
    assert line["acceptance"] == 1
    assert 0 <= line["purity"] <= 1

    stored = dict(np.load(tiny.data))
    stored["labels"][200:] = -1
    np.savez(tmp_path / "few.npz", **stored)
    few = replace(accept_all, data=str(tmp_path / "few.npz"), labels="all", out=str(tmp_path / "few"))
    # With this seed, the only unlabelled image of the only step has an unknown label.
    line = fit_folder(replace(few, steps=1, batch=replace(tiny.batch, labelled=2, ratio=1))).history()[-1]
    assert line["acceptance"] == 1
    assert line["purity"] is None
    assert fit_folder(replace(tiny, method="supervised", out=tiny.out + "-supervised")).history()[-1]["purity"] is None


@pytest.fixture
def steps(monkeypatch):
    """The learning rates and losses of each step."""
    seen = []

    def watched(method, model, state, *rest):
        rates = [group["lr"] for optimizer in state.optimizers for group in optimizer.param_groups]
        losses = training_step(method, model, state, *rest)
        seen.append((rates, losses))
        return losses

    monkeypatch.setattr("surelabel.training.loop.training_step", watched)
    return seen


def test_train_follows_the_learning_rate_schedule(tiny, tmp_path, steps):
    fit_folder(replace(tiny, method="bam-uda", optimizer=Optimizer(lr=0.5), head=Head(lr=0.02)))
    shares = [math.cos(7 * math.pi * k / (16 * 12)) for k in range(12)]
    np.testing.assert_allclose([rates for rates, _ in steps], [[0.5 * s, 0.5 * s, 0.02 * s] for s in shares])

    steps.clear()
    rising = Optimizer(lr=0.5, schedule="warmup-cosine", warmup=4, start=0.2, end=0.1)
    fit_folder(replace(tiny, method="paws", optimizer=rising, out=str(tmp_path / "rising")))
    shares = [0.2, 0.4, 0.6, 0.8] + [0.1 + 0.9 * (1 + math.cos(math.pi * k / 8)) / 2 for k in range(8)]
    np.testing.assert_allclose([rates for rates, _ in steps], [[0.5 * s, 0.5 * s] for s in shares])


def test_train_averages_since_the_last_evaluation(tiny, steps):
    lines = fit_folder(replace(tiny, method="uda", selection=replace(tiny.selection, threshold=0.12))).history()
    accepted = []
    for number, line in enumerate(lines):
        recent = [losses for _, losses in steps[4 * number : 4 * number + 4]]
        for part in ("labelled", "unlabelled"):
            mean = np.mean([losses.parts[part].item() for losses in recent])
            assert line[f"{part}_loss"] == pytest.approx(mean, rel=1e-5)
        confidence = torch.cat([losses.prediction.probs.amax(dim=1) for losses in recent])
        assert line["pool_confidence"] == pytest.approx(float(confidence.mean()), rel=1e-5)
        assert line["acceptance"] == pytest.approx(
            float(torch.cat([losses.accepted for losses in recent]).float().mean())
        )
        accepted.append(line["acceptance"])
    assert len(set(accepted)) > 1  # otherwise a mean since the start would pass too


def test_train_divides_the_kl_by_the_pool(tiny, digits_data):
    config = replace(tiny, method="bam-uda", steps=1)
    (line,) = fit_folder(config).history()
    network = build.build_network(build.resolve(config), build_data.task_of(digits_data))
    assert line["prior_loss"] == pytest.approx(sum(part.sum().item() for part in network.head.kl()) / 1400, rel=1e-5)


@pytest.mark.parametrize("method", ["fixmatch", "paws"])
def test_train_works_without_a_test_set(tiny, tmp_path, method):
    images, labels = digits()
    np.savez(tmp_path / "train.npz", images=images, labels=labels)
    folder = fit_folder(replace(tiny, method=method, data=str(tmp_path / "train.npz")))
    assert (folder.path / "weights.safetensors").exists()


def test_train_evaluates_averaged_and_raw_weights(tiny):
    every = replace(tiny.evaluation, samples=None)
    folder = fit_folder(replace(tiny, average=Average(decay=1.0), evaluation=every))
    averaged, raw = folder.weights(), folder.weights(RAW)
    assert not torch.equal(averaged["head.weight"], raw["head.weight"])
    result = json.loads((folder.path / "result.json").read_text())
    assert result["averaged"] != result["raw"]
    last = folder.history()[-1]
    for name in ("accuracy", "ece", "nll", "brier"):
        assert last[name] == pytest.approx(result["averaged"][name])
        assert last[f"raw_{name}"] == pytest.approx(result["raw"][name])
    assert result["samples"] == 397
    assert sum(row["count"] for row in result["classes"]) == 397


@pytest.mark.slow
def test_train_learns(tiny):
    """40 labels of ten digits: far better than chance."""
    folder = fit_folder(
        replace(tiny, steps=150, batch=replace(tiny.batch, labelled=16), evaluation=replace(tiny.evaluation, every=0.2))
    )
    assert json.loads((folder.path / "result.json").read_text())["averaged"]["accuracy"] > 0.6
