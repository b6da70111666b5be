"""Helpers of several views."""

import torch
from torch import Tensor

from surelabel.utils.errors import UserError


def whole_number(u: Tensor, count: int | Tensor) -> Tensor:
    """U{0 .. count - 1} from U[0, 1), int64. In float32, u * count never rounds up to count."""
    return (u * count).to(torch.int64)


def take_pixels(images: Tensor, source: Tensor) -> Tensor:
    """Images [B, C, H, W] with each pixel taken from source [B, H, W], an index y * W + x."""
    flat = images.flatten(2)
    return flat.gather(2, source.flatten(1)[:, None].expand_as(flat)).view_as(images)


COLOURLESS = "choose a view that does not change colours, such as crops for paws.view"


def check_bytes(images: Tensor, view: str, remedy: str = COLOURLESS) -> None:
    """Reject images other than uint8 with 1 or 3 channels."""
    if images.dtype != torch.uint8 or images.shape[1] not in (1, 3):
        raise UserError(
            f"{view} needs uint8 images with 1 or 3 channels, but these are "
            f"{str(images.dtype).removeprefix('torch.')} with {images.shape[1]}: {remedy}"
        )
