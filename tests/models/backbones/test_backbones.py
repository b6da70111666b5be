import pytest
import torch
from torch.nn import functional as F

from surelabel.config.run import Network
from surelabel.models.backbones import backbone
from surelabel.models.backbones.layers import Conv
from surelabel.models.heads import LinearHead
from surelabel.utils.errors import UserError


def parameters(name, shape, classes):
    trunk = backbone(Network(name), shape)
    head = LinearHead(trunk.features, classes)
    return sum(parameter.numel() for module in (trunk, head) for parameter in module.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "millions"),
    [
        ("wrn-28-2", (3, 32, 32), 10, 1.47),
        ("wrn-28-8", (3, 32, 32), 100, 23.4),
        ("resnet-18", (3, 224, 224), 1000, 11.69),
        ("resnet-50", (3, 224, 224), 1000, 25.557032),
    ],
)
def test_backbone_parameter_counts_are_the_published_ones(name, shape, classes, millions):
    digits = len(str(millions).split(".")[1])
    assert round(parameters(name, shape, classes) / 1e6, digits) == millions


@pytest.mark.parametrize("name", ["wrn-10-1", "resnet-18", "resnet-50"])
@pytest.mark.parametrize("side", [8, 28, 32])
def test_backbone_feature_width_ignores_image_size(name, side):
    trunk = backbone(Network(name), (1, side, side)).eval()
    assert trunk(torch.rand(2, 1, side, side)).shape == (2, trunk.features)


def test_wide_resnet_equals_one_written_by_hand():
    """WRN-10-2 in functional form: the depth leaves one block a group."""
    torch.manual_seed(0)
    trunk = backbone(Network("wrn-10-2"), (3, 16, 16)).double().eval()
    weights = trunk.state_dict()
    for name in weights:
        if "running_mean" in name or ("norm" in name and name.endswith(("weight", "bias"))):
            weights[name] += 0.3 * torch.rand_like(weights[name])
    trunk.load_state_dict(weights)
    images = torch.rand(2, 3, 16, 16, dtype=torch.float64)

    def act(x, name):
        parts = [weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return F.leaky_relu(F.batch_norm(x, *parts), 0.1)

    x = F.conv2d(images, weights["stem.weight"], padding=1)
    for number, stride in enumerate((1, 2, 2)):
        block = f"blocks.{number}"
        activated = act(x, f"{block}.norm1")
        branch = F.conv2d(activated, weights[f"{block}.conv1.weight"], stride=stride, padding=1)
        branch = F.conv2d(act(branch, f"{block}.norm2"), weights[f"{block}.conv2.weight"], padding=1)
        x = branch + F.conv2d(activated if number == 0 else x, weights[f"{block}.shortcut.weight"], stride=stride)
    torch.testing.assert_close(trunk(images), act(x, "norm").mean((2, 3)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("stride", [1, 2])
def test_conv_circular_padding_wraps(stride):
    layer = Conv(2, 3, 3, stride, "circular")
    images = torch.rand(1, 2, 8, 8)
    tiled = images.tile(1, 1, 3, 3)
    expected = F.conv2d(tiled, layer.weight, padding=1, stride=stride)
    third = expected.shape[-1] // 3
    torch.testing.assert_close(layer(images), expected[..., third : 2 * third, third : 2 * third])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side"), [("wrn-10-1", 32), ("resnet-18", 32), ("resnet-18", 64)])
def test_backbone_circular_padding_is_invariant_to_rolls(name, side):
    """By a multiple of the network's total stride, so that strided layers see the same grid."""
    for padding, invariant in (("circular", True), ("zeros", False)):
        trunk = backbone(Network(name, padding=padding), (1, side, side)).double().eval()
        images = torch.rand(2, 1, side, side, dtype=torch.float64)
        moved = trunk(images.roll((side // 4, side // 2) if side < 64 else (32, 32), (2, 3)))
        assert torch.allclose(trunk(images), moved, atol=1e-10) == invariant


def test_backbone_rejects_an_unused_stem_stride():
    with pytest.raises(UserError, match=r"network\.stem_stride"):
        backbone(Network("resnet-18", stem_stride=2), (3, 64, 64))


@pytest.mark.parametrize("name", ["wrn-28", "wrn-11-2", "wrn-4-1", "wrn-28-0", "resnet-20", "vgg", ""])
def test_backbone_rejects_unknown_names(name):
    with pytest.raises(UserError, match=r"wrn|10, 16, 22"):
        backbone(Network(name), (3, 32, 32))
