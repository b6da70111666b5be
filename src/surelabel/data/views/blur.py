"""Gaussian blur."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.resample import resample
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Blur:
    """Gaussian blur with a std (in pixels) uniform in `sigma`; border pixels repeat outside.

    The kernel reaches four times the largest std. PAWS uses Pillow's GaussianBlur, which
    approximates it by three box blurs: on small photographs 0.4 grey levels away on average, 19 at
    most.
    """

    sigma: tuple[float, float] = (0.1, 2.0)
    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 < self.sigma[0] <= self.sigma[1] < math.inf:
            raise UserError(f"{self} is not possible: sigma must be two numbers above 0, the smaller first")

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] uint8 or floating, u [B, 1]."""
        sigma = self.sigma[0] + (self.sigma[1] - self.sigma[0]) * u.double()
        reach = math.ceil(4 * self.sigma[1])
        offset = torch.arange(-reach, reach + 1, device=u.device)
        kernel = (-0.5 * (offset / sigma) ** 2).exp()
        height, width = images.shape[2:]
        down = _spread(kernel, height)
        return resample(images, down, down if width == height else _spread(kernel, width))


def _spread(kernel: Tensor, side: int) -> Tensor:
    """kernel [B, 2 reach + 1] -> the weight of each old pixel in each new one [B, side, side]."""
    place = torch.arange(side, device=kernel.device)[:, None]
    reach = kernel.shape[1] // 2
    source = (place + torch.arange(-reach, reach + 1, device=kernel.device)).clamp(0, side - 1)
    shape = len(kernel), side, kernel.shape[1]
    weights = kernel.new_zeros(len(kernel), side, side)
    return weights.scatter_add_(2, source.expand(shape), kernel[:, None].expand(shape))
