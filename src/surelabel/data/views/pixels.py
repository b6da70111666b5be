"""What several views share: whole numbers from uniform draws, images put together from source pixels, a refusal."""

import torch
from torch import Tensor

from surelabel.utils.errors import UserError


def whole_number(u: Tensor, count: int | Tensor) -> Tensor:
    """U{0 .. count - 1} from U[0, 1), int64. In float32, u < 1 times a whole number never rounds up to that number."""
    return (u * count).to(torch.int64)


def take_pixels(images: Tensor, source: Tensor) -> Tensor:
    """images [B, C, H, W], source [B, H, W] int64, each a place y * W + x -> the images made of those pixels."""
    flat = images.flatten(2)
    return flat.gather(2, source.flatten(1)[:, None].expand_as(flat)).view_as(images)


def check_bytes(images: Tensor, view: str) -> None:
    """Refuse images that have no grey levels from 0 to 255 or are neither grey nor RGB."""
    if images.dtype != torch.uint8 or images.shape[1] not in (1, 3):
        raise UserError(
            f"the view {view} needs uint8 images with 1 or 3 channels, but these are "
            f"{str(images.dtype).removeprefix('torch.')} with {images.shape[1]}: "
            "choose one that leaves colours alone, such as --paws.view crops"
        )
