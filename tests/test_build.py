from dataclasses import replace

import numpy as np
import pytest

from surelabel import build, build_data
from surelabel.average import Cosine, Equal, Moving, Rising
from surelabel.config import Selection, Target, Teacher
from surelabel.data.arrays import ArraySource, own_data_set
from surelabel.errors import UserError
from surelabel.targets import Hard, Sharpen


def test_resolving_fills_in_the_methods_own_values_and_changes_nothing_twice(tiny):
    resolved = build.resolve(replace(tiny, method="uda", device="auto", threads=None))
    assert (resolved.selection.threshold, resolved.target.temperature, resolved.weight) == (0.8, 0.4, 1.0)
    assert resolved.device in ("cpu", "cuda")
    assert resolved.threads >= 1
    assert build.resolve(resolved) == resolved


def test_settings_take_the_place_of_the_methods_own(tiny):
    run = replace(tiny, method="uda", selection=Selection(0.5), target=Target(0.0), weight=3.0, forward="joint")
    method = build.build_method(run)
    assert (method.select.threshold, method.target, method.weight, method.forward) == (0.5, Hard(), 3.0, "joint")
    assert build.build_method(replace(run, target=Target(0.7))).target == Sharpen(0.7)


@pytest.mark.parametrize(
    ("method", "settings", "rule"),
    [
        ("fixmatch", {}, Moving(0.9, warm=True)),
        ("paws", {}, None),
        ("paws+swa", {"onset": 0.5}, Equal(6)),
        ("uda+ema", {"gamma": 0.25}, Cosine(0.25, 12)),
        ("paws+ema", {"schedule": "linear", "gamma": 0.9, "warmup": 3}, Rising(0.9, 3)),
    ],
)
def test_the_name_of_a_method_says_how_its_weights_are_averaged(tiny, digits_data, method, settings, rule):
    run = build.resolve(replace(tiny, method=method, teacher=Teacher(**settings)))
    assert build.averaging_rule(run) == rule
    state = build.build_state(run, build.build_network(run, build_data.task_of(digits_data)), build.build_method(run))
    assert (state.average is None) == (rule is None)
    assert (state.teacher is state.network) == ("+" not in method)
    assert (state.evaluated is state.network) == (rule is None)


def test_a_teacher_never_shares_the_networks_pass(tiny):
    assert build.build_method(replace(tiny, method="uda+ema", forward="joint")).forward == "split"
    assert build.build_method(replace(tiny, method="paws")).own
    assert not build.build_method(replace(tiny, method="paws+swa")).own


def test_small_views_are_nine_sixteenths_of_an_image_unless_their_size_is_given(tiny, digits_data):
    labelled = build_data.build_split(tiny, digits_data)
    for given, size in ((None, 4), (6, 6)):
        run = replace(tiny, method="paws", paws=replace(tiny.paws, small_size=given))
        assert build.build_loader(run, digits_data, labelled)(0).small.shape[-2:] == (size, size)


def test_what_paws_cannot_do_is_refused(tiny, digits_data):
    with pytest.raises(UserError, match=r"Set paws\.smalls 0"):
        build.build_loader(
            replace(tiny, method="paws", paws=replace(tiny.paws, view="periodic")), digits_data, np.arange(4)
        )
    with pytest.raises(UserError, match="must be above zero"):
        build.build_method(replace(tiny, method="paws", target=Target(0.0)))


def test_a_fingerprint_sees_a_changed_label_and_changed_images(digits_data):
    images, labels = digits_data.train.images(np.arange(500)), digits_data.train.labels[:500].copy()

    def made(images, labels):
        return build_data.fingerprint(own_data_set("x", ArraySource(images, labels, digits_data.classes), None))

    first = made(images, labels)
    assert first == made(images.copy(), labels.copy())
    labels[77] = (labels[77] + 1) % 10
    assert first != made(images, labels)
    assert made(images, labels) != made(255 - images, labels)
