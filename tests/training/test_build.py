from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.run import Head, Optimizer, Selection, Target, Teacher
from surelabel.config.run import Paws as PawsSettings
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.source import DataSet, Subset
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import Confidence, Uncertainty
from surelabel.methods.targets import Hard, Sharpen
from surelabel.models.heads import Bayesian
from surelabel.training import build, build_data
from surelabel.training.average import EMA, SWA, CosineEMA, WarmupEMA
from surelabel.training.lars import LARS
from surelabel.utils.errors import UserError
from tests.helpers.runs import initial_state, loader_of


def test_resolve_fills_in_defaults_once(tiny):
    resolved = build.resolve(replace(tiny, method="uda", device="auto", threads=None))
    assert (resolved.selection.threshold, resolved.target.temperature, resolved.weight) == (0.8, 0.4, 1.0)
    assert resolved.device in ("cpu", "cuda")
    assert resolved.threads >= 1
    assert build.resolve(resolved) == resolved


def test_resolve_gives_a_table_one_thread(tiny, monkeypatch):
    monkeypatch.setattr("surelabel.utils.cpu.available_cores", lambda: 8)
    network = replace(tiny.network, name="mlp-2-128")
    table = replace(tiny, data="a.csv", threads=None, network=network)
    pictures = replace(table, encoder="efficientnet-lite0")
    asked = (table, replace(table, threads=4), pictures, replace(tiny, threads=None))
    assert [build.resolve(config).threads for config in asked] == [1, 4, 8, 8]


def test_build_method_overrides_published_values(tiny):
    config = replace(tiny, method="uda", selection=Selection(0.5), target=Target(0.0), weight=3.0, forward="joint")
    method = build.build_method(config)
    assert (method.select.threshold, method.target, method.weight, method.forward) == (0.5, Hard(), 3.0, "joint")
    assert build.build_method(replace(config, target=Target(0.7))).target == Sharpen(0.7)


def test_build_method_passes_every_setting(tiny):
    by = {"start": 0.2, "warmup": 5, "window": 7, "statistic": "std", "inclusive": False, "lagged": True}
    head = Head(samples=9, sampling="weights", prior_std=0.3, kl="mean", kl_weight=3.0, kl_warmup=4)
    selection, target = Selection(quantile=0.6, **by), Target(sharpen_samples=True)
    config = replace(tiny, method="bam-uda", selection=selection, head=head, target=target)
    method = build.build_method(config, 77)
    assert method.select == Uncertainty(0.6, **by)
    assert method.head == Bayesian(9, "weights", 0.3)
    assert method.prior == PriorLoss("mean", 3.0, 4, 77)
    assert method.sampled_temperature == method.target.temperature
    sharp = replace(tiny, method="uda", selection=Selection(sharpened=True), target=Target(0.5))
    assert build.build_method(sharp).select == Confidence(0.8, 0.5)
    near = PawsSettings(temperature=0.3, smoothing=0.2, me_max=False)
    method = build.build_method(replace(tiny, method="bam-paws", paws=near, head=head))
    assert (method.temperature, method.smoothing, method.me_max, method.head.samples) == (0.3, 0.2, False, 9)


def test_build_optimizers_passes_every_setting(tiny, digits_data):
    def made(method, **settings):
        config = replace(tiny, method=method, optimizer=Optimizer(**settings), head=Head(lr=0.07))
        return build.build_optimizers(build.build_network(config, build_data.task_of(digits_data)), config)

    for nesterov in (False, True):
        plain, adam = made("bam-uda", lr=0.3, momentum=0.8, nesterov=nesterov, weight_decay=0.02)
        assert isinstance(adam, torch.optim.Adam)
        assert adam.param_groups[0]["lr"] == 0.07
        for group, decay in zip(plain.param_groups, (0.02, 0.0), strict=True):
            found = {key: group[key] for key in ("lr", "momentum", "nesterov", "weight_decay")}
            assert found == {"lr": 0.3, "momentum": 0.8, "nesterov": nesterov, "weight_decay": decay}
    (lars,) = made("paws", lr=0.3, momentum=0.8, nesterov=False, lars_trust=0.02, weight_decay=0.01)
    assert isinstance(lars, LARS)
    assert [(group["lr"], group["momentum"], group["trust"]) for group in lars.param_groups] == [
        (0.3, 0.8, 0.02), (0.3, 0.8, 0.0),
    ]  # fmt: skip


@pytest.mark.parametrize("buffers", ["copy", "average"])
def test_build_state_averages_buffers_if_asked(tiny, digits_data, buffers):
    config = build.resolve(replace(tiny, average=replace(tiny.average, decay=0.5, warm=False, buffers=buffers)))
    state = initial_state(config, digits_data)
    norm = next(name for name, _ in state.network.named_buffers() if name.endswith("running_mean"))
    for value in (0.0, 8.0):
        state.network.get_buffer(norm).fill_(value)
        state.average.update_parameters(state.network)
    expected = {"copy": 8.0, "average": 4.0}[buffers]
    assert torch.equal(state.evaluated.get_buffer(norm), torch.full_like(state.evaluated.get_buffer(norm), expected))


@pytest.mark.parametrize(
    ("method", "settings", "rule"),
    [
        ("fixmatch", {}, EMA(0.9, warm=True)),
        ("paws", {}, None),
        ("paws+swa", {"onset": 0.5}, SWA(6)),
        ("uda+ema", {"gamma": 0.25}, CosineEMA(0.25, 12)),
        ("paws+ema", {"schedule": "linear", "gamma": 0.9, "warmup": 3}, WarmupEMA(0.9, 3)),
    ],
)
def test_averaging_rule_follows_the_method_name(tiny, digits_data, method, settings, rule):
    config = build.resolve(replace(tiny, method=method, teacher=Teacher(**settings)))
    assert build.averaging_rule(config) == rule
    state = initial_state(config, digits_data)
    assert (state.average is None) == (rule is None)
    assert (state.teacher is state.network) == ("+" not in method)
    assert (state.evaluated is state.network) == (rule is None)


def test_build_method_separates_the_teacher_pass(tiny):
    assert build.build_method(replace(tiny, method="uda+ema", forward="joint")).forward == "split"
    assert build.build_method(replace(tiny, method="paws")).self_teaching
    assert not build.build_method(replace(tiny, method="paws+swa")).self_teaching


def test_build_loader_sizes_small_views(tiny, digits_data):
    for given, size in ((None, 4), (6, 6)):  # by default 9/16 of the image
        config = replace(tiny, method="paws", paws=replace(tiny.paws, small_size=given))
        assert loader_of(config, digits_data)(0).small.shape[-2:] == (size, size)


def test_build_rejects_impossible_paws_settings(tiny, digits_data):
    with pytest.raises(UserError, match=r"set paws\.small_crops to 0"):
        build.build_loader(
            replace(tiny, method="paws", paws=replace(tiny.paws, view="periodic")), digits_data, np.arange(4)
        )
    with pytest.raises(UserError, match="must be above zero"):
        build.build_method(replace(tiny, method="paws", target=Target(0.0)))


def test_fingerprint_changes_with_labels_and_images(digits_data):
    images, labels = digits_data.train.samples(np.arange(500)), digits_data.train.labels[:500].copy()

    def made(images, labels):
        return build_data.fingerprint(user_data_set("x", ArraySource(images, labels, digits_data.classes), None))

    first = made(images, labels)
    assert first == made(images.copy(), labels.copy())
    labels[77] = (labels[77] + 1) % 10
    assert first != made(images, labels)
    assert made(images, labels) != made(255 - images, labels)


def test_fingerprint_changes_with_what_decides_the_folds(digits_data):
    """Otherwise a run that is read again would be judged by labels that it has learnt."""
    found = set()
    for name in ("", "groups", "suggested"):
        source = Subset(digits_data.train, np.arange(500))
        if name:
            setattr(source, name, np.arange(500) % 2 == 0)
        found.add(build_data.fingerprint(DataSet("x", source)))
    assert len(found) == 3
    source.suggested = np.zeros(500, dtype=bool)
    assert build_data.fingerprint(DataSet("x", source)) in found
