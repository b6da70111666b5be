"""The views of a run, by the names in its settings."""

from typing import Literal

import torch

from surelabel.config import OWN, TABLE_VIEWS, Run
from surelabel.data import views
from surelabel.data.source import DataSet
from surelabel.data.table import TableSource
from surelabel.data.views import Corrupt, Noise, View
from surelabel.errors import UserError
from surelabel.own import NOTHING, Own


def build_view(role: Literal["labelled", "weak", "strong"], run: Run, data: DataSet, own: Own = NOTHING) -> View:
    """The view that a run has for this role."""
    name: str = getattr(run.views, role)
    if name == OWN:
        return own.view(role)
    if name in TABLE_VIEWS:
        return _of_table(name, role, run, data)
    if name != "none" and len(data.train.shape) != 3:
        raise UserError(
            f"views.{role} {name} is a view of images, and these are {_kind(data)}: choose "
            + (", ".join(("none", *TABLE_VIEWS)) if isinstance(data.train, TableSource) else "none, or give your own")
        )
    return views.named(name)


def _of_table(name: str, role: str, run: Run, data: DataSet) -> View:
    source = data.train
    if not isinstance(source, TableSource):
        raise UserError(f"views.{role} {name} is a view of tables, and these are {_kind(data)}: choose another")
    device = torch.device(run.device)
    if name == "noise":
        return Noise(run.table.noise, torch.from_numpy(source.encoding.standardised).float().to(device))
    groups = torch.from_numpy(source.encoding.groups).to(device)
    return Corrupt(run.table.corruption, torch.from_numpy(source.rows).to(device), groups)


def _kind(data: DataSet) -> str:
    if isinstance(data.train, TableSource):
        return "rows of a table"
    return "images" if len(data.train.shape) == 3 else f"samples of shape {data.train.shape}"
