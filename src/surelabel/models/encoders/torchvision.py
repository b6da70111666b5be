"""Encoders of torchvision: its classifiers by name, without their last layer."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import hub
from surelabel.models.encoders.base import Preprocessing, TorchEncoder
from surelabel.utils.errors import UserError, suggestion


def opened(name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str) -> TorchEncoder:
    from torchvision import models

    model, _, chosen = rest.partition(":")
    known = models.list_models(module=models)
    if model not in known:
        raise UserError(f"encoder {name}: torchvision has no classifier {model!r}.{suggestion(model, known)}")
    of_model = models.get_model_weights(model)
    if chosen and chosen not in of_model.__members__:
        raise UserError(f"encoder {name}: there are no weights {chosen!r}.{suggestion(chosen, of_model.__members__)}")
    weights = of_model[chosen] if chosen else of_model.DEFAULT
    _check_weights(name, weights, offline)
    network = models.get_model(model, weights=weights, progress=False)
    _take_last_layer_off(name, network)
    return TorchEncoder(name, network, _preprocessing(weights).at(side), device)


def _check_weights(name: str, weights: Any, offline: bool) -> None:
    """Have the file of the weights here, and read it once in the way that runs no code."""
    path = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
    if not path.exists():
        if offline:
            raise UserError(f"encoder {name}: {path.name} is not stored here, and downloads are refused (--offline)")
        hub.announce(weights.url, 1e6 * weights.meta["_file_size"])
    try:
        weights.get_state_dict(progress=False, check_hash=True, weights_only=True, map_location="cpu")
    except Exception as error:  # of the network, the disk, or a pickle that carries code
        raise UserError(f"encoder {name}: the weights {path} cannot be had: {error}") from error


def _take_last_layer_off(name: str, network: nn.Module) -> None:
    """Replace the last linear layer, which gives the classes, by nothing."""
    linear = [place for place, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise UserError(f"encoder {name} has no pooled output: its last layer is not linear. Choose another")
    parent, _, last = linear[-1].rpartition(".")
    setattr(network.get_submodule(parent), last, nn.Identity())


def _preprocessing(weights: Any) -> Preprocessing:
    said = weights.transforms()
    side, scaled = said.crop_size[0], said.resize_size[0]
    mean, std = (tuple(255.0 * value for value in values) for values in (said.mean, said.std))
    return Preprocessing(side, mean, std, Scaling(min(1.0, side / scaled), said.interpolation.value))
