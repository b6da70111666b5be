import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.inference import onnx as export
from surelabel.inference.onnx import Exported
from surelabel.inference.trained_run import TrainedRun, load
from surelabel.models.gaussian_softmax import SPREAD
from surelabel.training import build, build_data, evaluate
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from tests.conftest import tiny_run
from tests.helpers.runs import fit_folder

pytestmark = pytest.mark.slow

onnx = pytest.importorskip("onnx", reason="the extra `export` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
METHODS = ["uda", "bam-uda", "paws"]


@pytest.fixture(scope="module")
def runs(digits_file, tmp_path_factory):
    """The folder and the ONNX file of a method, made on first use."""
    made = {}

    def get(method):
        if method not in made:
            place = tmp_path_factory.mktemp(method)
            folder = fit_folder(replace(tiny_run(digits_file, place / "run"), method=method, steps=2))
            made[method] = folder, place / "model.onnx", load(folder.path).export(place / "model.onnx")
        return made[method]

    return get


def session(file):
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("method", METHODS)
def test_export_agrees_with_torch_for_any_batch(runs, digits_data, method):
    folder, file, difference = runs(method)
    module = Exported(load(folder.path).network).eval()
    assert difference <= 1e-5
    for first, count in ((0, 1), (3, 7), (0, 200)):
        images = digits_data.test.samples(np.arange(first, first + count))
        with torch.no_grad():
            ours = module(torch.from_numpy(images))
        theirs = session(file).run(None, {"images": images})
        assert len(ours) == len(theirs) == (2 if method == "bam-uda" else 1)
        for mine, given in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(given, mine.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ["uda", "paws"])
def test_export_of_a_point_head_agrees_with_predict(runs, digits_data, method):
    folder, file, _ = runs(method)
    index = np.arange(100)
    expected = evaluate.predict(load(folder.path).network, digits_data.test, index, 30)
    (probs,) = session(file).run(None, {"images": digits_data.test.samples(index)})
    assert expected.std is None
    np.testing.assert_allclose(probs, expected.probs.numpy(), rtol=0, atol=1e-5)


def test_exported_bam_paws_uses_the_means_of_the_last_layer(tiny, digits_data):
    config = build.resolve(replace(tiny, method="bam-paws", precision="64"))
    network = build.build_network(config, build_data.task_of(digits_data))
    find("paws").before_evaluation(network, digits_data.train, np.arange(40), 40)
    expected = evaluate.predict(network, digits_data.test, np.arange(30), 30).probs
    with torch.no_grad():
        (probs,) = Exported(network.float()).eval()(torch.from_numpy(digits_data.test.samples(np.arange(30))))
    np.testing.assert_allclose(probs, expected, rtol=0, atol=1e-5)


def test_export_of_a_bayesian_head_agrees_with_predict(runs, digits_data):
    folder, file, _ = runs("bam-uda")
    index = np.arange(100)
    expected = evaluate.predict(load(folder.path).network, digits_data.test, index, 30)
    probs, std = session(file).run(None, {"images": digits_data.test.samples(index)})
    np.testing.assert_allclose(probs, expected.probs.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(std, expected.std.numpy(), rtol=0, atol=1e-5)


def test_exported_network_draws_for_uncertain_images_alone(tiny, digits_data):
    """Of these images, some have an std for which there is no closed form."""
    config = build.resolve(replace(tiny, method="bam-uda"))
    network = build.build_network(config, build_data.task_of(digits_data)).eval()
    images = torch.from_numpy(digits_data.test.samples(np.arange(50)))
    with torch.no_grad():
        norms = network.features(images).square().sum(dim=1).add(1).sqrt()
        for rho in (network.head.weight_rho, network.head.bias_rho):
            rho.fill_((SPREAD / norms.median()).expm1().log())  # so that half of the images have a larger std
        assert 0 < (network.head.moments(network.features(images))[1].amax(dim=1) > SPREAD).sum() < 50
        probs, std = Exported(network).eval()(images)
    expected = network.predict(images, generator(0, "none"))
    torch.testing.assert_close(probs, expected.probs, rtol=0, atol=1e-6)
    torch.testing.assert_close(std, expected.std, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_export_stores_classes_and_preprocessing(runs, digits_data, method):
    folder, file, _ = runs(method)
    stored = {key: json.loads(text) for key, text in session(file).get_modelmeta().custom_metadata_map.items()}
    task, preprocessing = folder.task(), stored["preprocessing"]
    assert stored["classes"] == list(digits_data.classes)
    assert (preprocessing["shape"], preprocessing["dtype"]) == ([1, 8, 8], "uint8")
    assert (preprocessing["offset"], preprocessing["scale"]) == ([*task.offset], [*task.scale])
    assert "bicubic" in preprocessing["resize"]
    assert ("under the Gaussian" in stored["std"]) if method == "bam-uda" else stored["std"] is None


def test_export_is_silent_and_stores_no_local_paths(runs, tmp_path, capfd, caplog):
    folder, _, _ = runs("uda")
    capfd.readouterr()
    with caplog.at_level(logging.WARNING):
        load(folder.path).export(tmp_path / "again.onnx")
    said = capfd.readouterr()
    assert (said.out, said.err, caplog.text) == ("", "", "")
    content = (tmp_path / "again.onnx").read_bytes()
    assert b".py" not in content
    assert str(Path(__file__).parents[2]).encode() not in content


def test_export_writes_nothing_that_differs_from_torch(runs, tmp_path, monkeypatch):
    folder, file, _ = runs("bam-uda")
    model = onnx.load(file)
    (bias,) = [part for part in model.graph.initializer if part.name.endswith("bias_mean")]
    bias.raw_data = np.arange(10, dtype=np.float32).tobytes()
    monkeypatch.setattr(export, "traced", lambda *given, **named: model)
    with pytest.raises(UserError, match=r"would differ from torch by .* not written"):
        load(folder.path).export(tmp_path / "wrong.onnx")
    assert list(tmp_path.iterdir()) == []


def test_export_names_the_extra_of_a_missing_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"needs the package onnxruntime: pip install 'surelabel\[export\]'"):
        TrainedRun(None).export(tmp_path / "model.onnx")


@pytest.mark.parametrize("method", ["uda", "bam-uda"])
def test_export_guide_example_runs(runs, digits_data, tmp_path, monkeypatch, capsys, method):
    guide = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    code = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    assert set(re.findall(r"^import (\w+)", code, re.MULTILINE)) == {"json", "numpy", "onnxruntime"}
    folder, file, _ = runs(method)
    (tmp_path / "model.onnx").write_bytes(file.read_bytes())
    np.save(tmp_path / "images.npy", digits_data.test.samples(np.arange(3)))
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(code, {})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = evaluate.predict(load(folder.path).network, digits_data.test, np.arange(3), 3)
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert [len(line) for line in lines] == [4 if method == "bam-uda" else 3] * 3
    if method == "uda":
        assert [float(line[2]) for line in lines] == pytest.approx(expected.probs.amax(1).tolist(), abs=1e-5)
