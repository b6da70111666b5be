import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.data.views import VIEWS, Chain, Cutout, FlipCrop, Identity, paws_view
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops

IMAGES = torch.from_numpy(crops(24, 3, 16, 16))
WIDE = torch.from_numpy(crops(24, 3, 16, 20))
CASES = {name: (view, IMAGES) for name, view in VIEWS.items()} | {
    f"paws {colours}": (paws_view(9, (0.3, 1), colours), WIDE.float() if colours == "crops" else WIDE)
    for colours in ("cifar", "imagenet", "crops")
}


def draws(view, rows=24):
    return torch.from_numpy(uniforms(2, "test", 0, rows, view.draws))


def test_identity_changes_nothing():
    assert torch.equal(Identity()(IMAGES, draws(Identity())), IMAGES)


def test_chain_applies_its_parts_in_order():
    parts = FlipCrop(), Cutout(4), FlipCrop(1)
    chain = Chain(parts)
    assert chain.draws == 8
    u = draws(chain)
    expected = parts[2](parts[1](parts[0](IMAGES, u[:, :3]), u[:, 3:5]), u[:, 5:])
    assert torch.equal(chain(IMAGES, u), expected)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25)
@given(rows=st.lists(st.integers(0, 23), max_size=24))
def test_view_of_a_row_depends_on_that_row_only(name, rows):
    """Rows come out the same in any selection and order as in the whole batch."""
    view, images = CASES[name]
    u = draws(view)
    index = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(view(images[index], u[index]), view(images, u)[index])


@pytest.mark.parametrize("name", CASES)
def test_view_ignores_memory_order_and_does_not_change_its_input(name):
    view, images = CASES[name]
    before = images.clone()
    views = view(images, draws(view))
    assert torch.equal(images, before)
    size = (9, 9) if name.startswith("paws") else images.shape[2:]
    assert (views.shape, views.dtype) == ((24, 3, *size), images.dtype)
    assert torch.equal(view(images.to(memory_format=torch.channels_last), draws(view)), views)
