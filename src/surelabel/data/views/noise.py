"""The weak view of a table's row."""

from dataclasses import dataclass

import torch
from torch import Tensor

# Draws are multiples of 2⁻²⁴ from 0 on; half of one more keeps them off 0, whose normal number would be infinite.
HALF_A_STEP = 2**-24


@dataclass(frozen=True)
class Noise:
    """Add a normal number of the given deviation to each column where `where` [d] is 1, and nothing where it is 0."""

    deviation: float
    where: Tensor

    @property
    def draws(self) -> int:
        return len(self.where)

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d] of floats, u [B, d]."""
        normal = torch.erfinv(2 * u - 1 + HALF_A_STEP) * 2**0.5
        return rows + self.deviation * self.where * normal
