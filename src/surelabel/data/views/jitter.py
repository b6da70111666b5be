"""Random brightness, contrast, saturation and hue."""

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views import enhance
from surelabel.data.views.hue import shift_hue
from surelabel.data.views.pixels import check_bytes, whole_number
from surelabel.utils.errors import UserError

CHANGES = (enhance.brightness, enhance.contrast, enhance.saturation, shift_hue)
ORDERS = tuple(permutations(range(len(CHANGES))))


@dataclass(frozen=True)
class Jitter:
    """Change brightness, contrast, saturation and hue, in a random order for each image.

    Factors are uniform in 1 ± 0.8 strength, but not below 0; the hue shift is uniform in ± 0.2
    strength of a full turn; the 24 orders are equally likely. Each change equals Pillow's.
    """

    strength: float
    draws: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 2.5:
            raise UserError(f"{self} is not possible: strength must be from 0 to 2.5, which is half a turn of the hue")

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] uint8 with C = 1 or 3, u [B, 5]: three factors, shift, order."""
        check_bytes(images, "the view Jitter")
        least = torch.tensor([max(0.0, 1 - 0.8 * self.strength)] * 3 + [-0.2 * self.strength], dtype=torch.float64)
        most = torch.tensor([1 + 0.8 * self.strength] * 3 + [0.2 * self.strength], dtype=torch.float64)
        least, most = least.to(u.device), most.to(u.device)
        amounts = (least + (most - least) * u[:, :4].double()).float()
        order = torch.tensor(ORDERS, device=u.device)[whole_number(u[:, 4], len(ORDERS))]
        row = torch.arange(len(images), device=u.device)
        for step in range(len(CHANGES)):
            # Sort the images by the change that is due, and apply it group by group.
            number, place = order[row, step].sort()
            row = row[place]
            sizes = number.bincount(minlength=len(CHANGES)).tolist()
            groups = torch.split(images.index_select(0, place), sizes)
            own = torch.split(amounts[row, number], sizes)
            images = torch.cat([change(*group) for change, *group in zip(CHANGES, groups, own, strict=True)])
        return images.index_select(0, row.argsort())
