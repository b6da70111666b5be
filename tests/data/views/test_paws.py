import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.data.views import Blur, Chain, Flip, Grey, Jitter, ResizedCrop, Sometimes, paws_view
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_paws import after_crop
from tests.data.views.pillow_policy import from_pillow, to_pillow

KINDS = {"cifar": torch.uint8, "imagenet": torch.uint8, "crops": torch.float32}
IMAGES = torch.from_numpy(crops(24, 3, 16, 20))
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def draws(view, rows=24):
    return torch.from_numpy(uniforms(2, "test", 0, rows, view.draws))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_after_the_crop_the_small_view_equals_a_loop_over_the_images_with_pillow(shape):
    crop, *rest = paws_view(18, (0.3, 0.75), "cifar").parts
    view = Chain(rest)
    assert crop == ResizedCrop(18, (0.3, 0.75))
    images, u = crops(400, *shape), uniforms(1, "test", 0, 400, view.draws)
    views = view(torch.from_numpy(images), torch.from_numpy(u)).numpy()
    pairs = zip(images, u.tolist(), strict=True)
    np.testing.assert_array_equal(views, [from_pillow(after_crop(to_pillow(image), own)) for image, own in pairs])


def test_the_other_kinds_are_what_they_say():
    crop = ResizedCrop(None, (0.14, 1))
    natural = Sometimes(0.8, Jitter(1)), Sometimes(0.2, Grey()), Sometimes(0.5, Blur())
    assert paws_view(None, (0.14, 1), "imagenet") == Chain((crop, Flip(), *natural))
    assert paws_view(None, (0.14, 1), "crops") == Chain((crop, Flip()))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(rows=st.lists(st.integers(0, 23), max_size=24))
def test_a_row_depends_on_its_own_image_and_draws_alone(kind, rows):
    """Whatever rows are chosen, in whatever order, alone or repeated, each comes out as it does in the whole batch."""
    view, images = paws_view(9, (0.3, 1), kind), IMAGES.to(KINDS[kind])
    u = draws(view)
    index = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(view(images[index], u[index]), view(images, u)[index])


@pytest.mark.parametrize("kind", KINDS)
def test_the_given_images_are_left_alone_and_memory_order_does_not_matter(kind):
    view, images = paws_view(18, (0.3, 0.75), kind), IMAGES.to(KINDS[kind])
    before = images.clone()
    views = view(images, draws(view))
    assert torch.equal(images, before)
    assert (views.shape, views.dtype) == ((24, 3, 18, 18), images.dtype)
    assert torch.equal(view(images.to(memory_format=torch.channels_last), draws(view)), views)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", [0.0, BELOW_ONE])
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 1), (1, 2, 7), (3, 40, 3)])
def test_ends_of_the_draws_and_tiny_images_go_through(kind, draw, shape):
    images = torch.from_numpy(crops(2, *shape)).to(KINDS[kind])
    for size, expected in [(None, shape[1:]), (5, (5, 5))]:
        view = paws_view(size, (0.3, 0.75), kind)
        views = view(images, torch.full((2, view.draws), draw))
        assert views.shape == (2, shape[0], *expected)
        assert views.isfinite().all()


def test_floats_are_refused_where_colours_change():
    for kind in ("cifar", "imagenet"):
        view = paws_view(None, (0.5, 1), kind)
        with pytest.raises(UserError, match="uint8 images with 1 or 3 channels"):
            view(IMAGES.float(), torch.full((24, view.draws), 0.99))


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"no changes of colour named 'cifer'\. Did you mean 'cifar'\?"):
        paws_view(None, (0.5, 1), "cifer")
