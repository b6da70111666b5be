"""The methods, by name. Each is a value; a variant is a swap of one part."""

from typing import Any, Protocol

from torch import nn

from surelabel.methods.bam import bam, bam_fixmatch, bam_pseudo_label, bam_uda, bam_uda_no_sigma
from surelabel.methods.fixmatch import fixmatch
from surelabel.methods.paws import Paws, bam_paws, paws
from surelabel.methods.pseudo_label import pseudo_label
from surelabel.methods.selftraining import SelfTraining
from surelabel.methods.supervised import supervised
from surelabel.methods.uda import uda
from surelabel.network import Network
from surelabel.select import State
from surelabel.types import Losses

__all__ = ["METHODS", "Method", "Paws", "SelfTraining", "bam"]


class Method(Protocol):
    """What the loop asks of a method."""

    def init(self) -> State:
        """What the method remembers before the first step."""

    def loss(self, model: nn.Module, teacher: Network, batch: Any, state: State, step: int) -> tuple[Losses, State]:
        """The losses of one step, and what the method remembers after it.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """


METHODS: dict[str, SelfTraining | Paws] = {
    "supervised": supervised,
    "pseudo-label": pseudo_label,
    "uda": uda,
    "fixmatch": fixmatch,
    "bam-pseudo-label": bam_pseudo_label,
    "bam-uda": bam_uda,
    "bam-uda-no-sigma": bam_uda_no_sigma,
    "bam-fixmatch": bam_fixmatch,
    "paws": paws,
    "bam-paws": bam_paws,
}
