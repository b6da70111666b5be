"""Runs that train an encoder further."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from surelabel.config.recipes import trained_encoder
from surelabel.config.run import Batch, Evaluation, RunConfig, Tuning
from surelabel.config.validate import validate
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.estimator.classifier import SureLabelClassifier
from surelabel.inference.trained_run import fit, load
from surelabel.training import build
from surelabel.training.components import Components
from surelabel.utils.errors import UserError
from tests.conftest import digits
from tests.helpers.encoders import SIDE, save_dinov2

needs_transformers = pytest.mark.skipif(find_spec("transformers") is None, reason="the extra `hf` is not installed")


@pytest.fixture
def data():
    images, labels = digits()
    return Components(user_data_set("digits", *(ArraySource(images[part], labels[part]) for part in
                                               (slice(0, 60), slice(60, 90)))))  # fmt: skip


def config_of(name, out, **more):
    config = trained_encoder("fixmatch", "custom", "all", name)
    config = replace(
        config, steps=6, batch=Batch(4, 2), out=str(out), threads=1, evaluation=Evaluation(every=3), **more
    )
    return validate(config)


@pytest.mark.slow
@needs_transformers
def test_the_encoder_is_trained_at_its_own_rate(tmp_path, data):
    """All weights of encoder and head move, and with a share of 0 none of the encoder's."""
    name = save_dinov2(tmp_path / "model")
    moved = {}
    for share in (0.0, 0.1):
        config = config_of(name, tmp_path / str(share), tuning=Tuning(lr_share=share))
        run = fit(config, components=data, console=Console(quiet=True))
        assert run.task.shape == (1, SIDE, SIDE)
        before = build.build_network(run.config, run.task, data).state_dict()
        after = load_file(run.path / "weights-raw.safetensors")
        changed = {key for key in before if not torch.equal(before[key].cpu(), after[key])}
        moved[share] = {key.partition(".")[0] for key in changed}
        parameters = dict(run.raw_network.backbone.named_parameters())
        unseen = {key for key in parameters if f"backbone.{key}" not in changed}
        # A mask is not used, and attention does not depend on the bias of its keys.
        assert not {key for key in unseen if not key.endswith(("mask_token", "k_proj.bias"))} or share == 0
    assert moved == {0.0: {"head"}, 0.1: {"backbone", "head"}}
    groups = build.build_optimizers(before_network(run, data), run.config)[0].param_groups
    assert [group["lr"] / run.config.optimizer.lr for group in groups] == pytest.approx([0.1, 0.1, 1.0, 1.0])


def before_network(run, components):
    return build.build_network(run.config, run.task, components)


@pytest.mark.slow
@needs_transformers
def test_a_run_resumes_bit_for_bit_and_predicts_again(tmp_path, data, monkeypatch):
    name = save_dinov2(tmp_path / "model")
    quiet = Console(quiet=True)
    whole = fit(config_of(name, tmp_path / "whole"), components=data, console=quiet)

    class Killed(Exception):
        pass

    def kill(row):
        raise Killed

    stopped = config_of(name, tmp_path / "stopped")
    with pytest.raises(Killed):
        fit(stopped, components=data, console=quiet, watch=kill)
    fit(stopped, components=data, console=quiet, resume=True)
    for file in ("weights.safetensors", "weights-raw.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "stopped" / file).read_bytes()
    images = digits()[0][60:90]
    again = load(whole.path, data)
    torch.testing.assert_close(again.predict(images).prediction.probs, whole.predict(images).prediction.probs)
    assert again.metrics["samples"] == 30
    if find_spec("onnxscript") is not None:
        assert again.export(tmp_path / "model.onnx") < 1e-4
    save_dinov2(tmp_path / "model", seed=3)
    with pytest.raises(UserError, match="other weights"):
        load(whole.path, data).predict(images)


@pytest.mark.slow
@needs_transformers
def test_step_time_and_memory_are_said_before_it_starts(tmp_path, data, capsys):
    fit(config_of(save_dinov2(tmp_path / "model"), tmp_path / "run"), components=data)
    said = capsys.readouterr().out
    assert "trained further" in said
    assert "GB of memory" in said.partition("step 1/")[0]


@pytest.mark.slow
@needs_transformers
def test_the_classifier_trains_an_encoder_further(tmp_path):
    images, labels = digits()
    some = np.where(np.arange(60) < 40, labels[:60], -1)
    settings = {"train_encoder": True, "batch.labelled": 4, "batch.ratio": 1}
    model = SureLabelClassifier("uda", encoder=save_dinov2(tmp_path / "model"), steps=3, settings=settings)
    assert model.fit(images[:60, 0], some).predict(images[:5, 0]).shape == (5,)
    assert model.config_.train_encoder


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"encoder": "none"}, "encoder"),
        ({"encoder": "onnx:m.onnx"}, "onnx:m.onnx"),
        ({"encoder": "custom"}, "custom"),
        ({"method": "paws"}, "paws"),
        ({"data": "table.csv"}, "table.csv"),
    ],
)
def test_what_cannot_be_trained_further_is_refused(change, named):
    with pytest.raises(UserError, match=named):
        validate(replace(RunConfig(encoder="efficientnet-lite0", train_encoder=True), **change))
