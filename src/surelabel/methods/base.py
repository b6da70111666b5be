"""What the loop asks of a method, and what it gets."""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from surelabel.methods.selection import State
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction


@dataclass(frozen=True)
class Losses:
    """The loss to minimise, its parts, and what was predicted for and taken from the unlabelled images."""

    total: Tensor
    labelled: Tensor | None = None
    unlabelled: Tensor | None = None
    prior: Tensor | None = None  # of a Bayesian head, unweighted
    me_max: Tensor | None = None  # minus the entropy of the mean prediction
    prediction: Prediction | None = None  # of the unlabelled images, which made the pseudo-labels
    mask: Tensor | None = None  # [U], whose pseudo-label was accepted


class Method(Protocol):
    """What the loop asks of a method."""

    def init(self) -> State:
        """What the method remembers before the first step."""

    def loss(self, model: nn.Module, teacher: Network, batch: Any, state: State, step: int) -> tuple[Losses, State]:
        """The losses of one step, and what the method remembers after it.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
