"""User components: data, a backbone or views passed in Python instead of named in the config."""

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
    """User components, "custom" in the config; pass them again to resume or evaluate the run.

    `backbone` makes a module (samples [N, *shape] -> features [N, D]) from the shape of a sample. `views` maps the
    roles "labelled", "weak" and "strong" to views; the other roles keep the view that the config names. `encoder` turns
    uint8 pictures [n, C, H, W] into features [n, D], which the network learns from (docs/encoders.md).
    """

    data: DataSet | None = None
    backbone: Callable[[tuple[int, ...]], nn.Module] | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    encoder: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for role in self.views:
            if role not in ROLES:
                raise UserError(f"there is no view named {role!r}: give views for {', '.join(ROLES)}")

    def named_in_config(self, config: RunConfig) -> RunConfig:
        """The config with "custom" for each component."""
        if self.data is not None:
            config = replace(config, data=CUSTOM)
        if self.encoder is not None:
            config = replace(config, encoder=CUSTOM)
        if self.backbone is not None:
            config = replace(config, network=replace(config.network, name=CUSTOM))
        roles: dict[str, Any] = dict.fromkeys(self.views, CUSTOM)
        return replace(config, views=replace(config.views, **roles))

    def given_data(self) -> DataSet:
        if self.data is None:
            raise _missing("the data", "data")
        return self.data

    def given_encoder(self) -> Callable[[Any], Any]:
        if self.encoder is None:
            raise _missing("the encoder", "encoder")
        return self.encoder

    def view(self, role: str) -> View:
        if role not in self.views:
            raise _missing(f"the {role} view", "views")
        return self.views[role]

    def given_backbone(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """The backbone for samples of this shape, and its number of features."""
        if self.backbone is None:
            raise _missing("the network", "backbone")
        made = self.backbone(shape)
        with torch.no_grad():
            features = made.eval()(torch.zeros(2, *shape))
        if features.ndim != 2 or len(features) != 2:
            raise UserError(
                f"the backbone turns 2 samples into {tuple(features.shape)}: it must return features [2, D], "
                "one row per sample"
            )
        return made.train(), features.shape[1]


NO_COMPONENTS = Components()


def _missing(what: str, key: str) -> UserError:
    return UserError(
        f"{what} of this run was passed in Python: pass the same components=Components({key}=...) again "
        "(docs/own-modules.md)"
    )
