import json
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from surelabel.models.encoders import hub, open_encoder
from surelabel.utils.errors import UserError
from tests.helpers.photographs import normalised, photographs, seen_by

if find_spec("open_clip") is None or find_spec("torchvision") is None:
    pytest.skip("open_clip is not installed: `make test-encoders`", allow_module_level=True)
import open_clip

TINY = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 64, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 8, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


@pytest.fixture
def tiny(tmp_path):
    """A small model that open_clip knows by name, and its weights in a file."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    open_clip.add_model_config(tmp_path / "tiny.json")
    torch.manual_seed(0)
    model = open_clip.create_model("tiny").eval()
    weights = tmp_path / "open_clip_model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, weights)
    return model, weights


def test_features_are_those_of_open_clip_on_its_own_preprocessing(tiny):
    model, weights = tiny
    encoder = open_encoder(f"open_clip:tiny:{weights}")
    transform = open_clip.image_transform(64, is_train=False)
    ours = seen_by(encoder, photographs())
    given = normalised(ours, encoder)
    assert (given - torch.stack([transform(one) for one in photographs()])).abs().mean() < 0.02
    with torch.no_grad():
        expected = model.encode_image(given).numpy()
    np.testing.assert_allclose(encoder(ours), expected, rtol=1e-3, atol=1e-5)


def test_a_tag_says_how_the_model_is_read(tiny, monkeypatch):
    model, weights = tiny
    said = {"hf_hub": "org/tiny/", "quick_gelu": True, "mean": (0.5,) * 3, "std": (0.5,) * 3,
            "interpolation": "bilinear", "resize_mode": "squash"}  # fmt: skip
    monkeypatch.setattr(open_clip, "get_pretrained_cfg", lambda *_: said)
    asked = []
    monkeypatch.setattr(hub, "model_folder", lambda *given: asked.append(given) or (weights.parent, "c0ffee"))
    encoder = open_encoder("open_clip:tiny:some@v1")
    assert asked[0][1:4] == ("org/tiny", "v1", False)
    seen = encoder.preprocessing
    assert (seen.scaling.interpolation, seen.scaling.squash, seen.mean) == ("bilinear", True, (127.5,) * 3)
    assert encoder.revision == "c0ffee"
    pictures = np.random.default_rng(0).integers(0, 256, (2, 3, 64, 64), dtype=np.uint8)
    with torch.no_grad():
        other = model.encode_image(normalised(pictures, encoder)).numpy()
    assert np.abs(encoder(pictures) - other).max() > 1e-4  # by another activation


def test_another_size(tiny):
    assert open_encoder(f"open_clip:tiny:{tiny[1]}", 32).preprocessing.side == 32


def test_wrong_names_and_pickles_are_refused(tiny, tmp_path):
    for name, named in (("tinny:x", "tiny"), ("ViT-B-32:laion2b", "laion2b_")):
        with pytest.raises(UserError, match=named):
            open_encoder(f"open_clip:{name}", offline=True)
    tiny[1].rename(tmp_path / "weights.pt")
    with pytest.raises(UserError, match=r"weights\.pt"):
        open_encoder(f"open_clip:tiny:{tmp_path / 'weights.pt'}")
