"""Backbones by name: images [N, C, H, W], or other samples -> features [N, D]."""

import re

from surelabel.config.run import Network
from surelabel.models.backbones.mlp import MLP
from surelabel.models.backbones.projection import Projection
from surelabel.models.backbones.resnet import BLOCKS, SMALL, ResNet
from surelabel.models.backbones.wideresnet import WideResNet
from surelabel.utils.errors import UserError

__all__ = ["MLP", "Projection", "ResNet", "WideResNet", "backbone"]


Backbone = WideResNet | ResNet | MLP | Projection


def backbone(settings: Network, shape: tuple[int, ...], components: int = 256) -> Backbone:
    """The backbone of these settings for samples of this shape, such as (C, H, W)."""
    momentum = settings.norm_momentum if settings.norm == "batch" else None
    if match := re.fullmatch(r"mlp-([1-9]\d?)-([1-9]\d{0,4})", settings.name):
        return MLP(shape, int(match[1]), int(match[2]), momentum)
    if re.fullmatch(r"members-([1-9]\d{0,3})-([1-9]\d{0,4})", settings.name):
        return Projection(shape, components)  # the members are the head
    if len(shape) != 3:
        raise UserError(
            f"network.name {settings.name!r} is for images, but the samples have the shape {shape}: choose "
            "mlp-DEPTH-WIDTH, such as mlp-2-128"
        )
    channels, height, width = shape
    padding, stride = settings.padding, settings.stem_stride
    if match := re.fullmatch(r"wrn-(\d+)-(\d+)", settings.name):
        depth, widen = int(match[1]), int(match[2])
        if depth < 10 or (depth - 4) % 6 or widen < 1:
            raise UserError(
                f"network.name {settings.name!r}: the depth of a wide residual network must be 10, 16, 22, 28, ..."
            )
        return WideResNet(channels, depth, widen, momentum, padding, stride)
    if (match := re.fullmatch(r"resnet-(\d+)", settings.name)) and int(match[1]) in BLOCKS:
        if stride != 1 and min(height, width) >= SMALL:
            raise UserError(
                f"network.stem_stride must be 1: {settings.name} already halves images of {SMALL} pixels or more"
            )
        return ResNet(channels, int(match[1]), min(height, width), momentum, padding, stride)
    raise UserError(
        f"there is no network {settings.name!r}: network.name can be wrn-DEPTH-WIDTH (such as wrn-28-2), "
        "mlp-DEPTH-WIDTH (such as mlp-2-128), members-NUMBER-WIDTH, "
        + ", ".join(f"resnet-{depth}" for depth in BLOCKS)
        + ". Pretrained networks are named by encoder, and trained further with train_encoder"
    )
