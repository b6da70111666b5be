"""Encoders by name: pretrained networks that describe pictures or texts. One file per provider."""

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from surelabel.config.encoders import NGRAMS, check_installed, check_name, split_name
from surelabel.models.encoders.base import Encoder
from surelabel.models.encoders.hub import is_offline

# The file of each provider has `opened(name, rest, revision, side, offline, device)`.
MODULES = {
    "": "efficientnet",
    NGRAMS: "ngrams",
    "hf": "hugging_face",
    "timm": "timm",
    "torchvision": "torchvision",
    "open_clip": "open_clip",
    "onnx": "onnx_file",
}


def open_encoder(name: str, side: int | None = None, *, offline: bool | None = None, device: str = "cpu") -> Encoder:
    """The encoder of this name; raises a `UserError` before anything long if there is none, or it cannot be had.

    `side` is that of the pictures, where it is not to be the encoder's own. Downloads happen only for models of a
    hub that are not stored here, and their size is told first; `offline` refuses them, as $HF_HUB_OFFLINE does. The one
    opened last is kept.
    """
    check_name(name)
    check_installed(name)
    return _open(name, side, is_offline() if offline is None else offline, device, _stamp(split_name(name)[1]))


@lru_cache(maxsize=1)
def _open(name: str, side: int | None, offline: bool, device: str, stamp: tuple[float, ...]) -> Encoder:
    prefix, rest, revision = split_name(name)
    provider = import_module(f"surelabel.models.encoders.{MODULES[name if name in MODULES else prefix]}")
    made: Encoder = provider.opened(name, rest, revision, side, offline, device)
    return made


def _stamp(rest: str) -> tuple[float, ...]:
    """When the files of a model in a folder were changed; of another model nothing."""
    path = Path(rest)
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    return tuple(file.stat().st_mtime for file in files)
