"""What to learn from a prediction: the paper's ρ_t. A target is always a distribution [U, K]."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from surelabel.equations import harden, sharpen


class Target(Protocol):
    """Turns predicted probabilities [U, K] into what the network learns [U, K]."""

    @property
    def temperature(self) -> float: ...

    def __call__(self, probs: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Hard:
    """The most likely class alone: ρ_t with t → 0."""

    temperature: ClassVar[float] = 0.0

    def __call__(self, probs: Tensor) -> Tensor:
        return harden(probs)


@dataclass(frozen=True)
class Sharpen:
    """The prediction raised to the power 1/t and normalised."""

    temperature: float

    def __call__(self, probs: Tensor) -> Tensor:
        return sharpen(probs, self.temperature)


def target_at(temperature: float) -> Hard | Sharpen:
    """The target for this temperature, of which 0 takes the most likely class alone."""
    return Sharpen(temperature) if temperature > 0 else Hard()
