from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel import build
from surelabel.config import Selection, Target
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_here_is_told():
    with pytest.raises(UserError, match="device cuda"):
        build.usable("cuda")
    assert build.usable("auto") == "cpu"


def test_a_fingerprint_sees_a_changed_label_and_changed_images(digits_data):
    images, labels = digits_data.train.images(np.arange(500)), digits_data.train.labels[:500].copy()

    def made(images, labels):
        return build.fingerprint(own_data_set("x", ArraySource(images, labels, digits_data.classes), None))

    first = made(images, labels)
    assert first == made(images.copy(), labels.copy())
    labels[77] = (labels[77] + 1) % 10
    assert first != made(images, labels)
    assert made(images, labels) != made(255 - images, labels)
