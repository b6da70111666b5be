import signal
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from surelabel.cli.main import main
from surelabel.config.run import Views
from surelabel.data.arrays.source import SampleSource, user_data_set
from surelabel.inference.trained_run import load
from surelabel.training.components import Components
from surelabel.utils.errors import UserError
from surelabel.utils.signals import Stopped
from tests.helpers.runs import fit_folder


@dataclass(frozen=True)
class Louder:
    """A signal up to twice as loud."""

    draws: ClassVar[int] = 1

    def __call__(self, signals, u):
        return signals * (1 + u[:, :, None])


def convolution(shape):
    return nn.Sequential(nn.Conv1d(shape[0], 4, 5), nn.BatchNorm1d(4), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())


@pytest.fixture(scope="module")
def components() -> Components:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 120)
    waves = np.sin(np.arange(32) * (1 + labels[:, None]) * 0.4 + random.uniform(0, 6, (120, 1)))
    signals = np.stack([waves, random.normal(size=(120, 32))], axis=1).astype(np.float32) * 3 + 7
    parts = [SampleSource(signals[rows], labels[rows], ["low", "high"]) for rows in (slice(80), slice(80, None))]
    return Components(
        user_data_set("waves", *parts), convolution, dict.fromkeys(("labelled", "weak", "strong"), Louder())
    )


@pytest.fixture
def config(tiny):
    return replace(tiny, data="phc", labels=8, method="bam-uda")


def test_components_train_and_evaluate(config, components, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "custom").mkdir()  # not the data
    folder = fit_folder(config, components=components)
    stored = folder.config
    assert (stored.data, stored.network.name, stored.views) == ("custom", "custom", Views("custom", "custom", "custom"))
    assert folder.task().shape == (2, 32)
    run = load(folder.path, components)
    assert run.metrics["samples"] == 40
    # Signals are normalised by channel.
    network, held = run.network, components.data.train.samples(np.arange(80))
    np.testing.assert_allclose(network.offset.ravel(), held.mean(axis=(0, 2)), rtol=1e-5)
    np.testing.assert_allclose(network.scale.ravel(), held.std(axis=(0, 2)), rtol=1e-5)


def test_components_resume_bit_for_bit(config, components, tmp_path):
    whole = fit_folder(config, components=components).weights()
    part = replace(config, out=str(tmp_path / "part"))
    calls = []

    class StopAtEight(Louder):
        def __call__(self, signals, u):
            calls.append(None)
            if len(calls) == 8:
                signal.raise_signal(signal.SIGTERM)
            return super().__call__(signals, u)

    with pytest.raises(Stopped):
        fit_folder(part, components=replace(components, views={**components.views, "strong": StopAtEight()}))
    resumed = fit_folder(part, resume=True, components=components).weights()
    assert 8 <= len(calls) < 13
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_components_missing_ones_are_named(config, components, capsys):
    folder = fit_folder(config, components=components)
    for given, missing in (
        (Components(), "the data of this run was passed in Python"),
        (Components(components.data), "the network of this run"),
    ):
        with pytest.raises(UserError, match=missing):
            load(folder.path, given).evaluate()
    with pytest.raises(UserError, match="the weak view of this run"):
        fit_folder(config, resume=True, components=replace(components, views={}))
    assert main(["evaluate", str(folder.path)]) == 2
    assert "components=Components(data=...)" in capsys.readouterr().err


def test_components_that_do_not_fit_leave_no_folder(config, components):
    with pytest.raises(UserError, match=r"turns 2 samples into \(2, 4, 28\)"):
        fit_folder(config, components=replace(components, backbone=lambda shape: nn.Conv1d(shape[0], 4, 5)))
    with pytest.raises(UserError, match="no view named 'wild'"):
        Components(views={"wild": Louder()})
    with pytest.raises(UserError, match=r"views\.weak weak is a view of images, but these are samples of shape"):
        fit_folder(config, components=replace(components, views={"labelled": Louder()}))
    with pytest.raises(UserError, match=r"views\.weak noise is a view of tables"):
        fit_folder(replace(config, views=Views(weak="noise")), components=replace(components, views={}))
    assert not config.folder.exists()
