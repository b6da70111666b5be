"""Views: batched random changes of images that leave their class as it is, each image with draws of its own."""

from surelabel.data.views.crop import FlipCrop
from surelabel.data.views.cutout import Cutout
from surelabel.data.views.periodic import Periodic
from surelabel.data.views.randaugment import RandAugment
from surelabel.data.views.view import Chain, Identity, View
from surelabel.errors import UserError

__all__ = ["VIEWS", "Chain", "Cutout", "FlipCrop", "Identity", "Periodic", "RandAugment", "View", "named"]

VIEWS: dict[str, View] = {
    "none": Identity(),
    "weak": FlipCrop(),
    "strong": Chain((FlipCrop(), RandAugment(), Cutout())),
    "periodic": Periodic(),
}


def named(name: str) -> View:
    """The view of this name."""
    if name not in VIEWS:
        raise UserError(f"there is no view named {name!r}: choose one of {', '.join(VIEWS)}")
    return VIEWS[name]
