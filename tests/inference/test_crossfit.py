"""Further runs that leave out labels: what they may see, what is kept of them, and what the run does with it."""

import io
import json
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from rich.console import Console

from surelabel.data.folds import parts
from surelabel.data.source import UNLABELLED
from surelabel.inference import crossfit
from surelabel.inference.learners import PRIOR, file_of, stored_learners
from surelabel.inference.trained_run import fit, load
from surelabel.methods.joining import fit_powers, join
from surelabel.training import build
from surelabel.training import fit as training
from surelabel.training.checkpoints import read_checkpoint
from surelabel.training.components import NO_COMPONENTS
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError
from surelabel.utils.intervals import wilson
from tests.conftest import tiny_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown():
    return io.StringIO()


@pytest.fixture(scope="module")
def run(digits_file, tmp_path_factory, shown):
    """A run of some steps that was cross-fitted with three folds."""
    config = replace(tiny_run(digits_file, tmp_path_factory.mktemp("crossfit") / "run"), method="bam-uda", labels=60)
    return fit(config, crossfit=3, console=Console(file=shown, width=200))


def test_cost_is_said_before_and_all_is_kept_but_the_further_runs(run, shown):
    first, *rest = shown.getvalue().splitlines()
    assert "trains 4 times, about" in first
    assert sum("Cross-fitting: run" in line for line in rest) == 3
    kept = sorted(path.name for path in run.path.glob("crossfit*"))
    assert kept == [*(file_of(v, 3) for v in range(3)), "crossfit.json"]


def test_each_label_is_predicted_once_by_another_run(run):
    found = stored_learners(run, 3)
    assert sorted(found.index) == sorted(run.labelled)
    assert np.exp(found.log_probs[0]).sum(1) == pytest.approx(1)
    assert (found.labels == run.data.train.labels[found.index]).all()
    assert len({found.pool(v).tobytes() for v in range(3)}) == 3
    assert found.pool(0).shape == (1, len(run.unlabelled), 10)
    assert not set(run.unlabelled) & set(found.index)


def test_temperature_maximises_the_likelihood_and_its_prior(run):
    found = stored_learners(run, 3)
    place = np.arange(len(found.labels)), found.labels

    def loss(temperature):
        return -join(found.log_probs, np.array([1 / temperature]))[place].sum() + 0.5 * (log(temperature) / 0.5) ** 2

    grid = np.exp(np.linspace(-3, 3, 2001))
    assert run.network.temperature == pytest.approx(grid[np.argmin([loss(one) for one in grid])], rel=0.005)


def test_a_label_is_judged_without_its_fold(run):
    found, known = stored_learners(run, 3), run.trust.known
    for v in parts(found.fold):
        here = found.fold == v
        powers = fit_powers(found.log_probs[:, ~here], found.labels[~here], PRIOR)
        expected = join(found.log_probs[:, here], powers)
        assert known.probs[here] == pytest.approx(np.exp(expected))
        others = np.exp(join(found.pool(v), powers).max(1))
        ranks = [(others >= one).mean() for one in np.exp(expected.max(1))]
        assert known.rank[here] == pytest.approx(ranks, abs=1e-9)
    # Folds share training labels: the interval is that of 60 / 2.5 labels.
    assert known.interval == pytest.approx(wilson(known.accuracy, 60 / 2.5))


def test_all_that_the_run_says_has_the_temperature(run, digits_data):
    plain = load(run.path)
    plain.network.temperature = 1.0
    index = plain.unlabelled[:50]
    said, pixels = run.pool_prediction.probs[:50].double(), plain.data.train.samples(plain.unlabelled)
    before = plain.predict(pixels).prediction.probs[:50].double()
    expected = before ** (1 / run.network.temperature)
    expected /= expected.sum(1, keepdim=True)
    assert (said - before).abs().max() > 0.01
    assert said.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    again = load(run.path)
    assert again.pool_prediction.probs[:50].double().numpy() == pytest.approx(said.numpy(), abs=1e-6)
    assert again.pool_prediction.std.numpy() == pytest.approx(run.pool_prediction.std.numpy(), abs=1e-6)
    assert len(index) == 50
    # The metrics in its folder are those of what it says, and tell of its steps as before.
    stored = json.loads((run.path / "result.json").read_text())
    assert stored["averaged"] == pytest.approx(again.metrics["averaged"], abs=1e-6)
    assert stored["raw"] == pytest.approx(again.metrics["raw"], abs=1e-6)
    assert stored["summary"]["evaluations"] == 3


def test_page_says_how_far_to_trust_it_and_nothing_of_joining(run, tmp_path):
    run.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for part in ("How far to trust it", "right, left out", "by 60 labels", "temperature"):
        assert part in page
    assert "Joined:" not in page


def test_sets_of_classes_are_for_sure(run):
    for make in (lambda: run.predict_pool(0.9), lambda: run.predict(run.data.train.samples(np.arange(2)), sets=0.9)):
        with pytest.raises(UserError, match="are for method sure"):
            make()


def test_saved_elsewhere_it_says_the_same(run, tmp_path):
    run.save(tmp_path / "copy")
    copy = load(tmp_path / "copy")
    assert torch.equal(copy.pool_prediction.probs, load(run.path).pool_prediction.probs)
    assert copy.trust.known.accuracy == run.trust.known.accuracy


def test_exported_network_has_the_temperature(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    run.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    image = run.data.train.samples(np.array([5]))
    probs, std = session.run(None, {"images": image})
    alone = run.predict(image).prediction
    assert probs == pytest.approx(alone.probs.numpy(), abs=1e-5)
    assert std == pytest.approx(alone.std.numpy(), abs=1e-5)


def test_resumed_run_keeps_its_temperature(run):
    again = fit(run.config, resume=True, console=Console(quiet=True))
    assert again.network.temperature == run.network.temperature
    stored = json.loads((run.path / "result.json").read_text())
    assert stored["averaged"]["nll"] == pytest.approx(run.metrics["averaged"]["nll"], abs=1e-6)


@pytest.mark.parametrize("method", ["uda", "bam-fixmatch+ema", "paws"])
def test_nothing_that_a_further_run_learns_tells_the_labels_it_leaves_out(tiny, tmp_path, method, monkeypatch):
    """Another permutation of the labels of a fold: not a bit of what is predicted for it changes."""
    run = fit(replace(tiny, method=method), console=Console(quiet=True))
    out = np.sort(run.labelled[::4])
    seen = []
    build_loader = build.build_loader

    def watched(config, data, labelled, *rest):
        seen.append((data, labelled))
        return build_loader(config, data, labelled, *rest)

    monkeypatch.setattr(build, "build_loader", watched)

    def without(labels, place):
        run.data.train.labels = labels
        network = training.fit_without(
            run.config, RunFolder(tmp_path / place), run.data, run.labelled, out, NO_COMPONENTS
        )
        return network.state_dict(), crossfit._log_probs(run, network, out)

    labels = run.data.train.labels.copy()
    others = labels.copy()
    others[out] = np.roll(labels[out], 1)
    assert (others != labels).any()
    (weights, said), (weights_too, said_too) = without(labels, "one"), without(others, "other")
    run.data.train.labels = labels
    assert torch.equal(said, said_too)
    assert all(torch.equal(weights[name], weights_too[name]) for name in weights)
    for data, labelled in seen:
        # The samples are in its pool as before, without a class.
        assert len(data.train) == len(run.data.train)
        assert (data.train.labels[out] == UNLABELLED).all()
        assert not set(labelled) & set(out)
        assert len(labelled) == len(run.labelled) - len(out)


def test_stopped_it_goes_on_where_it_was(tiny, tmp_path, monkeypatch):
    tiny = replace(tiny, method="supervised", steps=4)
    whole = fit(replace(tiny, out=str(tmp_path / "whole")), crossfit=3, console=Console(quiet=True))
    fit_without, trained = crossfit.fit_without, []

    class Killed(Exception):
        pass

    def dies_in_the_second(config, folder, *rest):
        trained.append(folder.path.name)
        if len(trained) == 2:
            raise Killed
        return fit_without(config, folder, *rest)

    monkeypatch.setattr(crossfit, "fit_without", dies_in_the_second)
    with pytest.raises(Killed):
        fit(tiny, crossfit=3, console=Console(quiet=True))
    stopped = load(tiny.folder)
    assert stopped.network.temperature == 1
    with pytest.raises(UserError, match="cross-fit"):
        _ = stopped.trust
    again = fit(tiny, resume=True, crossfit=3, console=Console(quiet=True))
    assert trained == ["crossfit-1-of-3", "crossfit-2-of-3", "crossfit-2-of-3", "crossfit-3-of-3"]
    assert again.network.temperature == whole.network.temperature
    for v in range(3):
        name = file_of(v, 3)
        assert (again.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_further_run_that_was_begun_is_continued(tiny, tmp_path):
    """It ends as one that was never interrupted."""
    tiny = replace(tiny, method="supervised")
    run = fit(tiny, console=Console(quiet=True))
    out, given = run.labelled[:8], (run.data, run.labelled, run.labelled[:8], NO_COMPONENTS)
    whole = training.fit_without(run.config, RunFolder(tmp_path / "whole"), *given)
    part = RunFolder(tmp_path / "part")
    training.fit_without(run.config, part, *given)
    # As killed after the evaluation before the last.
    (part.path / "checkpoint.pt").unlink()
    assert read_checkpoint(part.path / "checkpoint-previous.pt")["step"] < run.config.steps
    again = training.fit_without(run.config, part, *given)
    assert torch.equal(crossfit._log_probs(run, whole, out), crossfit._log_probs(run, again, out))


def test_minutes_are_for_all_runs(tiny, monkeypatch):
    monkeypatch.setattr(training, "seconds_per_step", lambda *given: 0.1)
    asked = []

    def steps_in(minutes, seconds):
        asked.append(minutes)
        return 2

    monkeypatch.setattr(training, "steps_in", steps_in)
    run = fit(replace(tiny, method="supervised"), minutes=6, crossfit=3, console=Console(quiet=True))
    assert asked == [1.5]
    assert run.config.steps == 2


@pytest.mark.parametrize(
    ("changes", "folds", "message"),
    [
        ({}, 1, "at least two folds"),
        ({"method": "sure"}, 5, "sure has left each label out already"),
        ({"devices": 2}, 5, "for one process, and this run has 2"),
        ({"holdout": "20%"}, 5, "holdout"),
        ({"init": "some/run"}, 5, "init"),
        ({"labels": 10}, 5, "each class has only one"),
    ],
)
def test_refused_before_any_work(tiny, changes, folds, message):
    with pytest.raises(UserError, match=message):
        fit(replace(tiny, **changes), crossfit=folds, console=Console(quiet=True))
    assert not tiny.folder.exists()
    if not changes:
        with pytest.raises(UserError, match="save=False"):
            fit(tiny, crossfit=3, save=False)
