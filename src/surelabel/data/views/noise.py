"""The weak view of table rows."""

from dataclasses import dataclass

import torch
from torch import Tensor

# Draws are multiples of 2⁻²⁴ from 0. Half a step more avoids 0, whose normal quantile is infinite.
HALF_A_STEP = 2**-24


@dataclass(frozen=True)
class Noise:
    """Add Gaussian noise with the given std to the columns in which `where` [d] is 1, not 0."""

    std: float
    where: Tensor

    @property
    def draws(self) -> int:
        return len(self.where)

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d] of floats, u [B, d]."""
        normal = torch.erfinv(2 * u - 1 + HALF_A_STEP) * 2**0.5
        return rows + self.std * self.where * normal
