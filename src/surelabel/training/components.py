"""Parts of a run that are given in Python, not by name: data, a backbone, views."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from surelabel.config.run import CUSTOM, RunConfig
from surelabel.data.source import DataSet
from surelabel.data.views import View
from surelabel.utils.errors import UserError

ROLES = ("labelled", "weak", "strong")


@dataclass(frozen=True)
class Components:
    """What is given stands in a run's settings as "custom", and has to be given again to resume or evaluate the run.

    `backbone` makes a module (samples [N, *shape] -> features [N, D]) from the samples' shape; `views` are for the
    roles "labelled", "weak" and "strong", of which those left out keep the view that the settings name.
    """

    data: DataSet | None = None
    backbone: Callable[[tuple[int, ...]], nn.Module] | None = None
    views: Mapping[str, View] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role in self.views:
            if role not in ROLES:
                raise UserError(f"there is no view named {role!r}: give views for {', '.join(ROLES)}")

    def named_in_config(self, config: RunConfig) -> RunConfig:
        """The run, in whose settings "custom" stands for each part that is given."""
        if self.data is not None:
            config = replace(config, data=CUSTOM)
        if self.backbone is not None:
            config = replace(config, network=replace(config.network, name=CUSTOM))
        roles: dict[str, Any] = dict.fromkeys(self.views, CUSTOM)
        return replace(config, views=replace(config.views, **roles))

    def given_data(self) -> DataSet:
        if self.data is None:
            raise _missing("the data", "data")
        return self.data

    def view(self, role: str) -> View:
        if role not in self.views:
            raise _missing(f"the {role} view", "views")
        return self.views[role]

    def given_backbone(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """The backbone for samples of this shape, and how many features it makes of one."""
        if self.backbone is None:
            raise _missing("the network", "backbone")
        made = self.backbone(shape)
        with torch.no_grad():
            features = made.eval()(torch.zeros(2, *shape))
        if features.ndim != 2 or len(features) != 2:
            raise UserError(
                f"the backbone makes {tuple(features.shape)} of 2 samples: it must make features [2, D], "
                "one row a sample"
            )
        return made.train(), features.shape[1]


NO_COMPONENTS = Components()


def _missing(what: str, key: str) -> UserError:
    return UserError(
        f"{what} of this run was given in Python, and must be given again: pass components=Components({key}=...), as "
        "when it was begun (docs/own-modules.md)"
    )
