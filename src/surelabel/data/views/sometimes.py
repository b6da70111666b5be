"""Apply a view with a probability."""

from dataclasses import dataclass

import torch
from torch import Tensor

from surelabel.data.views.view import View
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Sometimes:
    """Apply a view to each image with the given probability; the other images cost nothing."""

    probability: float
    view: View

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise UserError(f"{self} is not possible: probability must be from 0 to 1")

    @property
    def draws(self) -> int:
        return 1 + self.view.draws

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W], u [B, draws]: whether, then the draws of the view."""
        rows = (u[:, 0] < self.probability).nonzero()[:, 0]
        # Even if no row is drawn, so that the view rejects unsuitable images in every batch.
        changed = self.view(images.index_select(0, rows), u[rows, 1:])
        if changed.shape[1:] != images.shape[1:]:
            raise UserError(f"{self} is not possible: a view of some images must not change their height and width")
        place = torch.arange(len(images), device=rows.device)
        place[rows] = len(images) + torch.arange(len(rows), device=rows.device)
        return torch.cat([images, changed]).index_select(0, place)
