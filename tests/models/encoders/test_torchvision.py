import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.models.encoders import open_encoder
from surelabel.utils.errors import UserError
from tests.helpers.photographs import normalised, photographs, seen_by

if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed: `make test-encoders`", allow_module_level=True)
from torchvision import models


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Store random weights where torchvision looks for downloaded ones."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def store(name):
        torch.manual_seed(0)
        model = models.get_model(name, weights=None).eval()
        path = Path(torch.hub.get_dir(), "checkpoints", Path(models.get_model_weights(name).DEFAULT.url).name)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), path)
        return model, path

    return store


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("shufflenet_v2_x0_5", lambda model, x: model.conv5(model.stage4(model.stage3(model.stage2(
            model.maxpool(model.conv1(x)))))).mean((2, 3))),
        ("mobilenet_v3_small", lambda model, x: model.classifier[:3](model.avgpool(model.features(x)).flatten(1))),
        ("efficientnet_b0", lambda model, x: model.avgpool(model.features(x)).flatten(1)),
    ],
)  # fmt: skip
def test_features_are_those_before_the_last_layer_on_its_own_preprocessing(stored, name, features):
    model, _ = stored(name)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    encoder = open_encoder(f"torchvision:{name}", offline=True)
    side = transforms.resize_size[0]
    pictures = [one.resize((3 * side, 2 * side)) for one in photographs()]
    ours = seen_by(encoder, pictures)
    given = normalised(ours, encoder)
    assert (given - torch.stack([transforms(one) for one in pictures])).abs().mean() < 0.02
    with torch.no_grad():
        expected = features(model, given).numpy()
    assert encoder.dimensions == expected.shape[1]
    np.testing.assert_allclose(encoder(ours), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_wrong_names_and_absent_weights_are_refused(stored):
    stored("shufflenet_v2_x0_5")
    for name, named in (
        ("shufflenet_v2_x0_6", "shufflenet_v2_x0_5"),
        ("shufflenet_v2_x0_5:IMAGENET1K_V7", "IMAGENET1K_V1"),
        ("resnet18", "offline"),
    ):
        with pytest.raises(UserError, match=named):
            open_encoder(f"torchvision:{name}", offline=True)


def test_a_network_without_a_linear_last_layer_is_refused(stored):
    stored("squeezenet1_1")
    with pytest.raises(UserError, match=r"squeezenet1_1 has no pooled"):
        open_encoder("torchvision:squeezenet1_1")


def test_weights_that_carry_code_are_refused(stored, tmp_path):
    _, path = stored("shufflenet_v2_x0_5")
    marker = tmp_path / "ran"

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    torch.save({"weights": Harmful()}, path)
    with pytest.raises(UserError, match="cannot be had"):
        open_encoder("torchvision:shufflenet_v2_x0_5")
    assert not marker.exists()
