"""The views of a run, by the names in its settings."""

from typing import Literal

import numpy as np
import torch

from surelabel.config.run import CUSTOM, TABLE_VIEWS, RunConfig
from surelabel.data import views
from surelabel.data.source import DataSet
from surelabel.data.tables.source import table_of
from surelabel.data.views import Corrupt, Noise, View
from surelabel.models.frozen_features import FeatureSource, features_of
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.utils.devices import augmentation_device
from surelabel.utils.errors import UserError

MOST_DONORS = 10_000  # rows that corrupted features are drawn from


def build_view(
    role: Literal["labelled", "weak", "strong"], run: RunConfig, data: DataSet, own: Components = NO_COMPONENTS
) -> View:
    """The view that a run has for this role."""
    name: str = getattr(run.views, role)
    if name == CUSTOM:
        return own.view(role)
    if name in TABLE_VIEWS:
        return _of_table(name, role, run, data)
    if name != "none" and len(data.train.shape) != 3:
        raise UserError(
            f"views.{role} {name} is a view of images, and these are {_kind(data)}: choose "
            + (", ".join(("none", *TABLE_VIEWS)) if _in_columns(data) else "none, or give your own")
        )
    return views.named(name)


def _of_table(name: str, role: str, run: RunConfig, data: DataSet) -> View:
    features, source = features_of(data.train), table_of(data.train)
    if features is not None:
        return _of_features(name, run, data, features)
    if source is None:
        raise UserError(f"views.{role} {name} is a view of tables, and these are {_kind(data)}: choose another")
    device = augmentation_device(torch.device(run.device))
    if name == "noise":
        return Noise(run.table.noise, torch.from_numpy(source.encoding.standardised).float().to(device))
    groups = torch.from_numpy(source.encoding.groups).to(device)
    return Corrupt(run.table.corruption, torch.from_numpy(source.rows).to(device), groups)


def _of_features(name: str, run: RunConfig, data: DataSet, source: FeatureSource) -> View:
    """Features are columns too, each in units of its own deviation."""
    device = augmentation_device(torch.device(run.device))
    if name == "noise":
        return Noise(run.table.noise, torch.tensor(data.scale, device=device))
    some = np.unique(np.linspace(0, len(source) - 1, min(MOST_DONORS, len(source))).astype(np.int64))
    donors = torch.from_numpy(source.samples(some)).to(device)
    return Corrupt(run.table.corruption, donors, torch.arange(donors.shape[1], device=device))


def _in_columns(data: DataSet) -> bool:
    return table_of(data.train) is not None or features_of(data.train) is not None


def _kind(data: DataSet) -> str:
    if _in_columns(data):
        return "rows of a table" if table_of(data.train) is not None else "features"
    return "images" if len(data.train.shape) == 3 else f"samples of shape {data.train.shape}"
