"""The weak view of table rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.pieces import normals, pieces


@dataclass(frozen=True)
class Noise:
    """Add Gaussian noise with the given std to the columns in which `where` [d] is 1, not 0."""

    std: float
    where: Tensor
    draws: ClassVar[int] = 1

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d] of floats, u [B, 1]: which piece of the noise."""
        return torch.addcmul(rows, self.where, pieces(self._noise, len(self.where), u[:, 0]), value=self.std)

    @cached_property
    def _noise(self) -> Tensor:
        return normals(len(self.where), self.where.device)
