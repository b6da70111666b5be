import json
from dataclasses import replace

import pytest
import torch

from surelabel.config import Average, Optimizer
from surelabel.errors import UserError
from surelabel.fit import fit
from surelabel.runfolder import RAW, RunFolder


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


def test_purity_is_null_where_the_pool_has_no_labels_and_acceptance_stays(tiny):
    line = rows(fit(replace(tiny, selection=replace(tiny.selection, threshold=0.0))))[-1]
    assert line["acceptance"] == 1
    assert 0 <= line["purity"] <= 1
    assert rows(fit(replace(tiny, method="supervised", out=tiny.out + "-supervised")))[-1]["purity"] is None


def test_timings_lie_beside_the_metrics(tiny):
    folder = fit(tiny)
    lines = [json.loads(line) for line in (folder.path / "timings.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert all(line["images_per_second"] > 0 for line in lines)
    assert {"views", "network", "update", "evaluation"} <= set(lines[0])


def test_a_loss_that_explodes_stops_the_run_by_name_and_keeps_the_last_good_checkpoint(tiny):
    with pytest.raises(UserError, match=r"the loss became (nan|inf) at step \d+.*smaller --optimizer\.lr"):
        fit(replace(tiny, optimizer=Optimizer(lr=1e30), evaluation=replace(tiny.evaluation, every=1)))
    folder = RunFolder(tiny.folder)
    kept = torch.load(folder.path / "checkpoint.pt", weights_only=True)
    assert kept["step"] >= 1
    assert rows(folder)[-1]["step"] == kept["step"]


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
