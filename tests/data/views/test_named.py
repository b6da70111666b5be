import numpy as np
import pytest
import torch

from surelabel.data.views import Identity, Periodic, named
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import strong


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40)])
def test_strong_view_equals_pillow(shape):
    images, u = crops(448, *shape), uniforms(1, "test", 0, 448, named("strong").draws)
    views = named("strong")(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    np.testing.assert_array_equal(views, np.stack([strong(image, own) for image, own in zip(images, u, strict=True)]))


def test_strong_view_begins_with_the_weak_one():
    weak, parts = named("weak"), named("strong").parts
    assert parts[0] == weak


def test_shift_views_never_flip():
    images = torch.from_numpy(crops(64, 3, 32, 32))
    for plain, mirroring in (("shift", "weak"), ("strong-shift", "strong")):
        u = torch.from_numpy(uniforms(2, "test", 0, 64, named(plain).draws))
        never = u.index_fill(1, torch.tensor([0]), 0.9)
        assert torch.equal(named(plain)(images, u), named(mirroring)(images, never))


def test_named_none_and_periodic():
    assert isinstance(named("none"), Identity)
    assert isinstance(named("periodic"), Periodic)


def test_named_rejects_an_unknown_view():
    with pytest.raises(
        UserError, match=r"no view named 'stong': choose one of none, weak, strong, shift, strong-shift, periodic"
    ):
        named("stong")
