"""Random resized crop, the first step of PAWS's view."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from surelabel.data.views.pixels import whole_number
from surelabel.data.views.resample import resample
from surelabel.utils.errors import UserError

TRIES = 10


@dataclass(frozen=True)
class ResizedCrop:
    """Crop a box of random area, aspect ratio and position, and resize it to size x size pixels.

    The fraction of the area is uniform in `scale`, the logarithm of width / height uniform in that
    of `ratio`. The first of ten boxes that fits is taken, else the largest centred one with an
    allowed ratio. Resizing equals Pillow's `crop(box).resize(..., BILINEAR)`, which smooths when
    it shrinks, up to one grey level, mostly in tall boxes: Pillow may resize the y axis first.
    """

    size: int | None  # None: the input's height and width
    scale: tuple[float, float]
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    draws: ClassVar[int] = 2 * TRIES + 2

    def __post_init__(self) -> None:
        possible = 0 < self.scale[0] <= self.scale[1] <= 1 and 0 < self.ratio[0] <= self.ratio[1] < math.inf
        if not possible or (self.size is not None and self.size < 1):
            raise UserError(
                f"{self} is not possible: size must be 1 or more, scale two fractions above 0 and up to 1, "
                "and ratio two numbers above 0, each with the smaller first"
            )

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] uint8 or floating, u [B, 22]: ten areas, ten ratios, y, x."""
        height, width = images.shape[2:]
        top, left, box_height, box_width = self.boxes(height, width, u)
        down = _triangles(top, box_height, height, self.size or height)
        return resample(images, down, _triangles(left, box_width, width, self.size or width))

    def boxes(self, height: int, width: int, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """u [B, 22] -> the boxes' top, left, height and width, each [B] int64."""
        area, ratio = torch.split(u[:, : 2 * TRIES].double(), TRIES, dim=1)
        area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * area)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (low + (high - low) * ratio).exp()
        widths, heights = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
        fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
        first, found = fits.byte().argmax(1, keepdim=True), fits.any(1)
        centre_height, centre_width = self._centre(height, width)
        box_height = torch.where(found, heights.gather(1, first)[:, 0], centre_height)
        box_width = torch.where(found, widths.gather(1, first)[:, 0], centre_width)
        free_down, free_across = height - box_height, width - box_width
        top = torch.where(found, whole_number(u[:, -2], free_down + 1), free_down // 2)
        left = torch.where(found, whole_number(u[:, -1], free_across + 1), free_across // 2)
        return top, left, box_height, box_width

    def _centre(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the largest box with the allowed ratio nearest to the image's."""
        if width < self.ratio[0] * height:
            return max(1, round(width / self.ratio[0])), width
        return height, max(1, min(width, round(height * self.ratio[1])))


def _triangles(start: Tensor, length: Tensor, side: int, size: int) -> Tensor:
    """Pillow's bilinear weights [B, size, side] of old pixels in new ones, which cover the box.

    A triangle around the centre of the new pixel, two old or two new pixels wide, whichever is
    wider, and 0 outside the box.
    """
    step = (length.double() / size)[:, None, None]
    new = torch.arange(size, device=start.device)[:, None] + 0.5
    old = torch.arange(side, device=start.device) + 0.5
    distance = (old - (start[:, None, None] + new * step)).abs_()
    weights = distance.div_(step.clamp(min=1)).neg_().add_(1).clamp_(min=0)
    first = start[:, None, None]
    return weights.mul_((old > first) & (old < first + length[:, None, None]))
