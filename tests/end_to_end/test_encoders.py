"""Runs on the features of an encoder by name, from the command line to a new process's predictions."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.cli.main import main
from surelabel.config.run import Evaluation, Network, Views
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.estimator.classifier import SureLabelClassifier
from surelabel.inference.trained_run import fit, load
from surelabel.training.components import Components
from surelabel.utils.errors import UserError
from tests.conftest import digits, tiny_run
from tests.helpers.encoders import SIDE, save_dinov2

if find_spec("transformers") is None:
    pytest.skip("the extra `hf` is not installed", allow_module_level=True)
FEW = ["--steps", "4", "--batch.labelled", "4", "--batch.ratio", "1", "--threads", "1", "--method", "uda"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pictures(tmp_path):
    """Thirty of two digits in colours, wider than high, in a folder for each; ten have no label."""
    images, labels = digits()
    for number, index in enumerate(np.flatnonzero(labels < 2)[:30]):
        place = tmp_path / "pictures" / (str(labels[index]) if number < 20 else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        large = Image.fromarray(images[index, 0]).resize((60, 48))
        Image.merge("RGB", [large, large.transpose(Image.Transpose.ROTATE_180), large]).save(place / f"{number}.png")
    return tmp_path / "pictures"


@pytest.mark.slow
def test_a_run_on_an_encoder_by_name(pictures, tmp_path, cache, capsys):
    name, run = save_dinov2(tmp_path / "model"), tmp_path / "run"
    begin = ["fit", str(pictures), "--encoder", name, "--network.name", "mlp-1-8", *FEW, "--out", str(run), "--offline"]
    assert main(begin) == 0, capsys.readouterr().err
    recorded = json.loads((run / "encoder.json").read_text())
    assert (recorded["name"], recorded["dimensions"], recorded["revision"]) == (name, 24, None)
    trained = load(run)
    assert trained.form.picture_shape == (3, SIDE, SIDE)
    # The pictures that it saw, decoded once more by hand.
    train = trained.data.train
    path = sorted(pictures.rglob("*.png"))[3]
    image = Image.open(path).convert("RGB")
    border = (1 - SIDE / 32) / 2
    box = (6 + border * 48, border * 48, 54 - border * 48, 48 - border * 48)
    by_hand = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box)
    found = train.pictures(np.array([train.names(np.arange(30)).index(path.relative_to(pictures).as_posix())]))[0]
    assert np.abs(np.asarray(by_hand).transpose(2, 0, 1).astype(int) - found).max() <= 1
    assert main(["predict", str(run), str(pictures), "-o", str(tmp_path / "new.csv")]) == 0
    assert main(["suggest", str(run), "-n", "2", "-o", str(tmp_path / "next.csv")]) == 0
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    assert len([*cache.glob("features-*.rows")]) == 1  # the same pictures, though they were opened otherwise
    export = tmp_path / "model.onnx"
    assert main(["export", str(run), "--onnx", str(export)]) == 0, capsys.readouterr().err
    from surelabel.utils.onnx import session

    given = train.pictures(np.arange(5))
    probs = session(export).run(None, {"images": given})[0]
    np.testing.assert_allclose(probs, trained.predict(given).prediction.probs, atol=1e-4)


@pytest.mark.slow
def test_a_run_is_not_read_with_other_weights(pictures, tmp_path, capsys):
    name, run = save_dinov2(tmp_path / "model"), tmp_path / "run"
    begin = ["fit", str(pictures), "--encoder", name, "--network.name", "mlp-1-8", *FEW, "--out", str(run)]
    assert main(begin) == 0, capsys.readouterr().err
    for change in ({"seed": 1}, {"resample": 3}):
        save_dinov2(tmp_path / "model", **change)
        for command in (
            ["predict", str(run), str(pictures), "-o", str(tmp_path / "new.csv")],
            [*begin, "--resume", "auto"],
        ):
            assert main(command) == 2
            assert "other weights" in capsys.readouterr().err
        with pytest.raises(UserError, match="other weights"):
            _ = load(run).data
    save_dinov2(tmp_path / "model")
    assert main(["predict", str(run), str(pictures), "-o", str(tmp_path / "new.csv")]) == 0


@pytest.mark.parametrize("name", ["hf:absent/model", "efficientnet-lite1", "onnx:absent.onnx", "hf:{folder}"])
def test_an_encoder_that_cannot_be_had_is_refused_before_pictures_are_read(name, pictures, tmp_path, cache, capsys):
    (tmp_path / "empty").mkdir()
    name = name.format(folder=tmp_path / "empty")
    assert main(["fit", str(pictures), "--encoder", name, "--out", str(tmp_path / "run"), "--offline"]) == 2
    assert name in capsys.readouterr().err
    assert not [*cache.glob("pictures-*")]
    assert not (tmp_path / "run").exists()


def colours(pictures):
    return np.concatenate(
        [pictures.mean((2, 3)), pictures.std((2, 3)), pictures[:, :, ::4, ::4].reshape(len(pictures), -1)], 1
    )


@pytest.mark.parametrize("size", [None, 12])
def test_a_callable_describes_samples(size, tmp_path):
    images, labels = digits()
    images = images[:60].repeat(2, 2).repeat(2, 3)
    seen = []

    def described(pictures):
        seen.append(pictures.shape)
        return colours(pictures.repeat(3, 1) if pictures.shape[1] == 1 else pictures)

    data = user_data_set("digits", ArraySource(images, labels[:60]), None)
    config = replace(
        tiny_run("custom", tmp_path / "run"), method="supervised", labels="all", image_size=size, steps=3,
        network=Network("mlp-1-16", norm_momentum=0.1), views=Views("noise"), evaluation=Evaluation(every=3),
    )  # fmt: skip
    components = Components(data, encoder=described)
    run = fit(config, components=components)
    assert run.config.encoder == "custom"
    assert ((8, 1, size, size) if size else (8, 1, 16, 16)) in seen
    predicted = run.predict(images[:5]).prediction.probs
    torch.testing.assert_close(load(run.path, components).predict(images[:5]).prediction.probs, predicted)
    with pytest.raises(UserError, match="encoder="):
        load(run.path, Components(data)).predict(images[:5])


def test_the_classifier_takes_a_callable():
    images, labels = digits()
    images = np.moveaxis(images[:80].repeat(3, 1), 1, -1)
    some = np.where(np.arange(80) < 60, labels[:80], -1)
    model = SureLabelClassifier(encoder=colours, steps=20).fit(images, some)
    assert (model.config_.encoder, model.config_.method) == ("custom", "sure")
    assert model.predict_proba(images).shape == (80, 10)


def test_the_classifier_is_not_used_with_other_weights(tmp_path):
    name = save_dinov2(tmp_path / "model")
    images, labels = digits()
    some = np.where(np.arange(40) < 30, labels[:40], -1)
    model = SureLabelClassifier("supervised", encoder=name, steps=3).fit(images[:40, 0], some)
    model.predict(images[:5, 0])
    save_dinov2(tmp_path / "model", seed=1)
    with pytest.raises(ValueError, match="other weights"):
        model.predict(images[:5, 0])
