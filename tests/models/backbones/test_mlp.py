import numpy as np
import pytest
import torch
from torch import nn

from surelabel.config.run import Network
from surelabel.models.backbones import backbone
from surelabel.utils.errors import UserError


def test_mlp_equals_numpy():
    made = backbone(Network("mlp-2-6"), (5,)).eval()
    rows = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    expected = rows
    for linear in (module for module in made.modules() if isinstance(module, nn.Linear)):
        # A new BatchNorm in evaluation divides by √(1 + ε).
        expected = np.maximum(expected @ linear.weight.detach().numpy().T / np.sqrt(1 + 1e-5), 0)
    np.testing.assert_allclose(made(torch.from_numpy(rows)).detach(), expected, rtol=1e-4, atol=1e-6)
    assert made.features == 6


@pytest.mark.parametrize("shape", [(9,), (2, 16), (3, 8, 8)])
def test_mlp_takes_any_shape(shape):
    assert backbone(Network("mlp-1-8"), shape)(torch.zeros(4, *shape)).shape == (4, 8)


def test_mlp_with_layer_norm_treats_rows_independently():
    rows = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    for norm, alone in (("group", True), ("batch", False)):
        made = backbone(Network("mlp-2-8", norm=norm), (5,)).train()
        assert torch.allclose(made(rows)[:2], made(rows[:2]), atol=1e-6) == alone


@pytest.mark.parametrize("name", ["mlp-0-8", "mlp-2", "mlp-2-0", "mlp"])
def test_backbone_rejects_wrong_mlp_names(name):
    with pytest.raises(UserError, match=r"there is no network|is for images"):
        backbone(Network(name), (5,))


def test_backbone_rejects_image_networks_for_tables():
    with pytest.raises(UserError, match=r"'wrn-28-2' is for images.*\(5,\)"):
        backbone(Network("wrn-28-2"), (5,))
