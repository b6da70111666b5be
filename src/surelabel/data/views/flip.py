"""A random horizontal flip."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Flip:
    """Flip left to right with probability 1/2."""

    draws: ClassVar[int] = 1

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] of any type, u [B, 1]."""
        return torch.where(u[:, :, None, None] < 0.5, images.flip(3), images)
