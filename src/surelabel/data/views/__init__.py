"""Views: random augmentations of batches, with separate random numbers for each sample."""

from typing import Literal

from surelabel.data.views.blur import Blur
from surelabel.data.views.corrupt import Corrupt
from surelabel.data.views.crop import FlipCrop
from surelabel.data.views.cutout import Cutout
from surelabel.data.views.flip import Flip
from surelabel.data.views.in_components import InComponents
from surelabel.data.views.jitter import Jitter
from surelabel.data.views.noise import Noise
from surelabel.data.views.periodic import Periodic
from surelabel.data.views.randaugment import RandAugment
from surelabel.data.views.recolour import Equalize, Grey, Solarize
from surelabel.data.views.resized_crop import ResizedCrop
from surelabel.data.views.sometimes import Sometimes
from surelabel.data.views.view import Chain, Identity, View
from surelabel.utils.errors import UserError, suggestion

__all__ = [
    "VIEWS", "Blur", "Chain", "Corrupt", "Cutout", "Equalize", "Flip", "FlipCrop", "Grey", "Identity",
    "InComponents", "Jitter", "Noise", "Periodic", "RandAugment", "ResizedCrop", "Solarize", "Sometimes", "View",
    "named", "paws_view",
]  # fmt: skip

VIEWS: dict[str, View] = {
    "none": Identity(),
    "weak": FlipCrop(),
    "strong": Chain((FlipCrop(), RandAugment(), Cutout())),
    "shift": FlipCrop(flip=False),
    "strong-shift": Chain((FlipCrop(flip=False), RandAugment(), Cutout())),
    "periodic": Periodic(),
}


def named(name: str) -> View:
    """The view of this name."""
    if name not in VIEWS:
        raise UserError(f"there is no view named {name!r}: choose one of {', '.join(VIEWS)}")
    return VIEWS[name]


def paws_view(size: int | None, scale: tuple[float, float], colours: Literal["cifar", "imagenet", "crops"]) -> Chain:
    """PAWS's view: a resized crop, a flip, and its colour changes for CIFAR or ImageNet.

    A size of None keeps height and width. "crops" changes no colours, and is the only one that
    takes images other than uint8 with 1 or 3 channels.
    """
    recolour: dict[str, tuple[View, ...]] = {
        "cifar": (Sometimes(0.8, Jitter(0.5)), Sometimes(0.2, Solarize()), Sometimes(0.2, Equalize())),
        "imagenet": (Sometimes(0.8, Jitter(1)), Sometimes(0.2, Grey()), Sometimes(0.5, Blur())),
        "crops": (),
    }
    if colours not in recolour:
        raise UserError(f"there are no changes of colour named {colours!r}.{suggestion(colours, recolour)}")
    return Chain((ResizedCrop(size, scale), Flip(), *recolour[colours]))
