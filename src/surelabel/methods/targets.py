"""From predictions to targets, both distributions [U, K]: the paper's ρ_t."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from surelabel.equations import harden, sharpen


class Target(Protocol):
    @property
    def temperature(self) -> float: ...

    def __call__(self, probs: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Hard:
    """The most likely class, one-hot: ρ_t with t → 0."""

    temperature: ClassVar[float] = 0.0

    def __call__(self, probs: Tensor) -> Tensor:
        return harden(probs)


@dataclass(frozen=True)
class Sharpen:
    """The prediction to the power 1/t, normalised."""

    temperature: float

    def __call__(self, probs: Tensor) -> Tensor:
        return sharpen(probs, self.temperature)
