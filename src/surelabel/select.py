"""Whom to trust: rules that accept or refuse pseudo-labels.

A rule is a frozen value. What it remembers between steps is explicit: `init` makes it, each call returns it anew.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from surelabel.types import Prediction

State = dict[str, Tensor]


class Select(Protocol):
    """A selection rule."""

    def init(self) -> State:
        """What the rule remembers before the first step."""

    def __call__(self, prediction: Prediction, state: State, step: int) -> tuple[Tensor, State]:
        """Which of the predictions [U, K] to accept, as a mask [U], and the new state."""


@dataclass(frozen=True)
class Confidence:
    """Accept where the largest probability is at least `threshold` (the indicator in Eq. 1)."""

    threshold: float

    def init(self) -> State:
        return {}

    def __call__(self, prediction: Prediction, state: State, step: int) -> tuple[Tensor, State]:
        return prediction.probs.amax(dim=-1) >= self.threshold, state
