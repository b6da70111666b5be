"""The strong view of table rows."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from surelabel.data.views.pixels import whole_number


@dataclass(frozen=True)
class Corrupt:
    """Replace each feature, with the given probability, by that of a random row of the table.

    Replaced values thus follow the feature's marginal distribution (VIME, Yoon et al. 2020; SCARF,
    Bahri et al. 2022). The columns of a group, such as those of a category, are one feature.
    """

    probability: float
    table: Tensor  # [N, d]
    groups: Tensor  # [d], from 0

    @cached_property  # reading a number from a GPU is slow
    def draws(self) -> int:
        return 2 * (int(self.groups[-1]) + 1)

    @cached_property
    def grouped(self) -> bool:
        """Whether some feature has several columns."""
        return self.draws < 2 * len(self.groups)

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d], u [B, 2 features]: whether each is replaced, then by which row's."""
        if self.grouped:
            u = u[:, torch.cat([self.groups, self.groups + self.draws // 2])]
        whether, which = u.chunk(2, dim=1)
        donors = whole_number(which, len(self.table))
        return self.table.gather(0, donors).where(whether < self.probability, rows)
