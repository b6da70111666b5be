"""The strong view of table rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from surelabel.data.views.pieces import chances, pieces
from surelabel.data.views.pixels import whole_number
from surelabel.utils.rng import generator

DONORS = 4096  # rows of which a corrupted one takes what is replaced


@dataclass(frozen=True)
class Corrupt:
    """Replace each feature, with the given probability, by that of a random row of the table.

    Replaced values thus follow the feature's marginal distribution (VIME, Yoon et al. 2020; SCARF,
    Bahri et al. 2022). The columns of a group, such as those of a category, are one feature.
    """

    probability: float
    table: Tensor  # [N, d]
    groups: Tensor  # [d], from 0
    draws: ClassVar[int] = 2

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d], u [B, 2]: which piece of the chances, and which donor."""
        replaced = pieces(self._chances, self._features, u[:, 0])
        if self._features < len(self.groups):
            replaced = replaced[:, self.groups]
        donors = self._donors.index_select(0, whole_number(u[:, 1], DONORS))
        # With weights of 0 and 1 this chooses, exactly and ten times as fast as torch.where.
        return torch.lerp(rows, donors.to(rows.dtype), replaced.to(rows.dtype))

    @cached_property  # reading a number from a GPU is slow
    def _features(self) -> int:
        return int(self.groups[-1]) + 1

    @cached_property
    def _chances(self) -> Tensor:
        return chances(self.probability, self._features, self.table.device)

    @cached_property
    def _donors(self) -> Tensor:
        """Rows [DONORS, d], each feature of another row of the table. All rows are in as often, to within one."""
        even = np.arange(DONORS) * len(self.table) // DONORS
        drawn = generator(0, "donors").permuted(np.tile(even, (self._features, 1)), axis=1)
        return self.table.gather(0, torch.from_numpy(drawn).to(self.table.device)[self.groups].T)
