import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.data.views import VIEWS, Chain, Cutout, FlipCrop, Identity
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops

IMAGES = torch.from_numpy(crops(24, 3, 16, 16))


def draws(view, rows=24):
    return torch.from_numpy(uniforms(2, "test", 0, rows, view.draws))


def test_identity_changes_nothing():
    assert torch.equal(Identity()(IMAGES, draws(Identity())), IMAGES)


def test_a_chain_applies_its_parts_in_order_with_draws_of_their_own():
    parts = FlipCrop(), Cutout(4), FlipCrop(1)
    chain = Chain(parts)
    assert chain.draws == 8
    u = draws(chain)
    expected = parts[2](parts[1](parts[0](IMAGES, u[:, :3]), u[:, 3:5]), u[:, 5:])
    assert torch.equal(chain(IMAGES, u), expected)


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=25)
@given(rows=st.lists(st.integers(0, 23), max_size=24))
def test_a_row_depends_on_its_own_image_and_draws_alone(name, rows):
    """Whatever rows are chosen, in whatever order, alone or repeated, each comes out as it does in the whole batch."""
    view = VIEWS[name]
    u = draws(view)
    index = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(view(IMAGES[index], u[index]), view(IMAGES, u)[index])


@pytest.mark.parametrize("name", VIEWS)
def test_the_given_images_are_left_alone_and_memory_order_does_not_matter(name):
    view = VIEWS[name]
    images = IMAGES.clone()
    views = view(images, draws(view))
    assert torch.equal(images, IMAGES)
    assert (views.shape, views.dtype) == (images.shape, images.dtype)
    assert torch.equal(view(images.to(memory_format=torch.channels_last), draws(view)), views)
