"""From the names in a config to its views."""

import numpy as np
import torch
from torch import Tensor

from surelabel.config.run import CUSTOM, TABLE_VIEWS, RunConfig
from surelabel.data import views
from surelabel.data.source import DataSet, Source
from surelabel.data.views import Corrupt, Noise, View
from surelabel.data.views.corrupt import DONORS
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.utils.devices import augmentation_device
from surelabel.utils.errors import UserError


def build_view(role: str, config: RunConfig, data: DataSet, components: Components = NO_COMPONENTS) -> View:
    """The view for a role: labelled, weak or strong."""
    name: str = getattr(config.views, role)
    if name == CUSTOM:
        return components.view(role)
    if name in TABLE_VIEWS:
        return _of_table(name, role, config, data)
    if name != "none" and len(data.train.shape) != 3:
        raise UserError(
            f"views.{role} {name} is a view of images, but these are {_kind(data)}: choose "
            + (", ".join(("none", *TABLE_VIEWS)) if data.train.kind != "samples" else "none, or pass a view")
        )
    return views.named(name)


def _of_table(name: str, role: str, config: RunConfig, data: DataSet) -> View:
    source = data.train
    if source.kind == "features":
        return _of_features(name, config, data)
    if source.encoding is None:
        raise UserError(f"views.{role} {name} is a view of tables, but these are {_kind(data)}: choose another")
    device = augmentation_device(torch.device(config.device))
    if name == "noise":
        return Noise(config.table.noise, torch.from_numpy(source.encoding.standardised).float().to(device))
    return Corrupt(
        config.table.corruption, _donors(source, device), torch.from_numpy(source.encoding.groups).to(device)
    )


def _of_features(name: str, config: RunConfig, data: DataSet) -> View:
    """Features as columns, each in units of its std."""
    device = augmentation_device(torch.device(config.device))
    if name == "noise":
        return Noise(config.table.noise, torch.tensor(data.scale, device=device))
    donors = _donors(data.train, device)
    return Corrupt(config.table.corruption, donors, torch.arange(donors.shape[1], device=device))


def _donors(source: Source, device: torch.device) -> Tensor:
    """The rows that corrupted features are taken from: all, or as many as a view uses."""
    kept = min(DONORS, len(source))
    return torch.from_numpy(source.samples(np.arange(kept) * len(source) // kept)).to(device)


def _kind(data: DataSet) -> str:
    if data.train.kind != "samples":
        return "rows of a table" if data.train.kind == "table" else "features"
    return "images" if len(data.train.shape) == 3 else f"samples of shape {data.train.shape}"
