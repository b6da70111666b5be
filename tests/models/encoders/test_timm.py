from importlib.util import find_spec

import numpy as np
import pytest
import torch

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import hub, open_encoder
from surelabel.utils.errors import UserError
from tests.helpers.photographs import normalised, photographs, seen_by

if find_spec("timm") is None or find_spec("torchvision") is None:
    pytest.skip("timm is not installed: `make test-encoders`", allow_module_level=True)
import timm
from timm.data import create_transform, resolve_model_data_config
from timm.models import save_for_hf


def saved(folder, name="test_vit", **said):
    """A small model of timm with random weights in a folder."""
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, pretrained_cfg_overlay=said, num_classes=5).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    save_for_hf(model, folder, safe_serialization=True)
    return model


@pytest.mark.parametrize("name", ["test_vit", "test_efficientnet", "test_resnet"])
@pytest.mark.parametrize("how", ["center", "squash"])
def test_features_are_those_of_timm_on_its_own_preprocessing(tmp_path, name, how):
    side = 160
    said = {"crop_pct": 0.8, "crop_mode": how, "interpolation": "bilinear", "mean": (0.4, 0.5, 0.6), "std": (0.2,) * 3}
    model = saved(tmp_path, name, **said)
    encoder = open_encoder(f"timm:{tmp_path}")
    assert encoder.preprocessing.side == side
    assert encoder.preprocessing.scaling == Scaling(0.8, "bilinear", squash=how == "squash")
    transform = create_transform(**resolve_model_data_config(model))
    pictures = [one.resize((600, 400)) for one in photographs()]  # divides without a remainder
    ours = seen_by(encoder, pictures)
    given = normalised(ours, encoder)
    assert (given - torch.stack([transform(one) for one in pictures])).abs().mean() < 0.02
    model.reset_classifier(0)
    with torch.no_grad():
        expected = model(given).numpy()
    assert encoder.dimensions == expected.shape[1]
    np.testing.assert_allclose(encoder(ours), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_a_model_of_the_hub_is_read_from_its_safetensors(tmp_path, monkeypatch):
    saved(tmp_path)
    asked = []
    monkeypatch.setattr(hub, "model_folder", lambda *given: asked.append(given) or (tmp_path, "c0ffee"))
    encoder = open_encoder("timm:test_vit.r160_in1k@v1", offline=True)
    assert asked[0][1:4] == ("timm/test_vit.r160_in1k", "v1", True)
    assert encoder.revision == "c0ffee"
    pictures = np.random.default_rng(0).integers(0, 256, (2, 3, 160, 160), dtype=np.uint8)
    other = open_encoder(f"timm:{tmp_path}")
    np.testing.assert_allclose(encoder(pictures), other(pictures), rtol=1e-3, atol=1e-4)


def test_another_size(tmp_path):
    saved(tmp_path)
    encoder = open_encoder(f"timm:{tmp_path}", 96)
    assert encoder.preprocessing.side == 96
    assert encoder(np.zeros((2, 3, 96, 96), np.uint8)).shape == (2, encoder.dimensions)


def test_wrong_models_are_refused(tmp_path):
    for name, named in (("resnet5O", "resnet50"), ("resnet50.a1_in2k", "resnet50.a1_in1k")):
        with pytest.raises(UserError, match=named):
            open_encoder(f"timm:{name}", offline=True)
    saved(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin"):
        open_encoder(f"timm:{tmp_path}")
