"""What several views share: whole numbers from uniform draws, and images put together from source pixels."""

import torch
from torch import Tensor


def whole_number(u: Tensor, count: int) -> Tensor:
    """U{0 .. count - 1} from U[0, 1), int64. In float32, u < 1 times a whole number never rounds up to that number."""
    return (u * count).to(torch.int64)


def take_pixels(images: Tensor, source: Tensor) -> Tensor:
    """images [B, C, H, W], source [B, H, W] int64, each a place y * W + x -> the images made of those pixels."""
    flat = images.flatten(2)
    return flat.gather(2, source.flatten(1)[:, None].expand_as(flat)).view_as(images)
