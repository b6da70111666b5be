"""Runs with each calibrator: stopping and resuming, predictions, export, cross-fitting."""

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.cli.main import main
from surelabel.config.run import AVERAGING, Network
from surelabel.estimator.classifier import SureLabelClassifier
from surelabel.inference.trained_run import load
from surelabel.methods.calibrators import CALIBRATORS
from surelabel.methods.calibrators import laplace as calibrator
from surelabel.models.laplace_head import LaplaceHead
from surelabel.training import evaluate
from surelabel.training.display import Display
from surelabel.utils.errors import UserError
from surelabel.utils.signals import Stopped
from tests.conftest import tiny_run
from tests.helpers.runs import fit_folder
from tests.helpers.tables import read_csv

NAMES = [name for name in CALIBRATORS if name != "none"]
RESULTS = ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json")


@pytest.fixture(scope="module")
def runs(digits_file, tmp_path_factory):
    """The folder of a run with a calibrator, made on first use."""
    made = {}

    def get(name):
        if name not in made:
            place = tmp_path_factory.mktemp(name)
            made[name] = fit_folder(replace(tiny_run(digits_file, place / "run"), method="uda", calibrator=name))
        return made[name]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_stopped_run_resumes_bit_for_bit(runs, tiny, monkeypatch, name):
    shown = Display.step

    def stop_at(self, now):
        shown(self, now)
        if now == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    config = replace(tiny, method="uda", calibrator=name)
    monkeypatch.setattr(Display, "step", stop_at)
    with pytest.raises(Stopped):
        fit_folder(config)
    monkeypatch.setattr(Display, "step", shown)
    resumed = fit_folder(config, resume=True)
    for file in RESULTS:
        assert (resumed.path / file).read_bytes() == (runs(name).path / file).read_bytes(), file


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_loaded_run_has_the_metrics_of_training(runs, name):
    folder = runs(name).path
    run = load(folder)
    stored = json.loads((folder / "result.json").read_text())
    assert {key: run.metrics[key] for key in ("averaged", "raw")} == {key: stored[key] for key in ("averaged", "raw")}
    assert (run.test_prediction.std is not None) == (name in AVERAGING)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_predict_command_gives_what_the_run_predicts(runs, tmp_path, digits_data, name):
    run = load(runs(name).path)
    index = np.arange(30)
    np.save(tmp_path / "new.npy", digits_data.test.samples(index))
    assert main(["predict", str(run.path), str(tmp_path / "new.npy"), "-o", str(tmp_path / "out.csv")]) == 0
    lines = read_csv(tmp_path / "out.csv")
    probs, classes = run.test_prediction.probs[index].max(1)
    assert [line["class"] for line in lines] == [str(k) for k in classes.tolist()]
    assert [float(line["confidence"]) for line in lines] == pytest.approx(probs.tolist(), abs=1e-6)
    assert ("confidence_std" in lines[0]) == (name in AVERAGING)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_export_agrees_with_predict(runs, tmp_path, digits_data, name):
    pytest.importorskip("onnx", reason="the extra `export` is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    run = load(runs(name).path)
    assert run.export(tmp_path / "model.onnx") <= 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"images": digits_data.test.samples(np.arange(40))})
    expected = evaluate.predict(run.network, digits_data.test, np.arange(40), 13)
    np.testing.assert_allclose(found[0], expected.probs.numpy(), rtol=0, atol=1e-5)
    assert len(found) == (2 if name in AVERAGING else 1)
    if name in AVERAGING:
        np.testing.assert_allclose(found[1], expected.std.numpy(), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_laplace_is_fitted_to_the_labelled_samples_of_the_run(runs):
    run = load(runs("laplace").path)
    head = run.network.head
    assert isinstance(head, LaplaceHead)
    before = head.covariances.clone()
    assert len(before) == 10
    images = torch.from_numpy(run.data.train.samples(run.labelled))
    with torch.no_grad():
        head.fit(run.network.features(images))
    torch.testing.assert_close(head.covariances, before)


@pytest.mark.slow
def test_laplace_with_too_many_weights_is_refused_before_the_training(tiny, monkeypatch):
    monkeypatch.setattr(calibrator, "MOST", 1000)
    with pytest.raises(UserError, match="10 classes, 64 features and 40 labels are too many"):
        fit_folder(replace(tiny, calibrator="laplace", network=Network("wrn-10-1", norm_momentum=0.1)))
    assert not tiny.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_crossfit_trains_with_the_calibrator(tiny, name):
    config = replace(tiny, method="uda", calibrator=name, steps=4)
    run = load(fit_folder(config, crossfit=2).path)
    assert run.learners.log_probs.shape == (1, 40, 10)
    assert run.network.temperature != 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixup", "mc-dropout", "laplace"])
def test_estimator_takes_a_calibrator(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    X[:, 0] += 3 * y
    model = SureLabelClassifier(method="uda", steps=5, settings={"calibrator": name}).fit(
        X, np.where(X[:, 1] > 0.5, -1, y)
    )
    probs = model.predict_proba(X)
    np.testing.assert_allclose(probs[7], model.predict_proba(X[7:8])[0], atol=1e-12)
    assert hasattr(model, "predict_std") == (name in AVERAGING)
