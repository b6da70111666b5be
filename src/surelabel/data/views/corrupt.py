"""The strong view of table rows."""

from dataclasses import dataclass
from functools import cached_property

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
        return int(self.groups[-1]) + 1

    def __call__(self, rows: Tensor, u: Tensor) -> Tensor:
        """rows [B, d], u [B, features]: replaced where u is below the probability, by which row's where below it."""
        if self.draws < len(self.groups):
            u = u[:, self.groups]
        flat, size = u.flatten(), len(self.table)
        places = (flat < self.probability).nonzero().squeeze(1)
        # Given that u is below the probability, u / probability is uniform again. It may round to 1.
        donors = whole_number(flat[places] / self.probability, size).clamp_max(size - 1)
        values = self.table.take(donors * rows.shape[1] + places % rows.shape[1])
        return rows.flatten().scatter(0, places, values.to(rows.dtype)).view_as(rows)
