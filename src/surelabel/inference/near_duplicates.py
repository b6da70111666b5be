"""Pictures that are nearly the same: a test picture that was also learnt from proves nothing."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from surelabel.data.source import Images

SIDE = 16
ALIKE = 0.995  # correlation of 16 × 16 pictures; scaling, dimming and JPEG at quality 75 keep it above this
FLAT = 1e-3


def near_duplicates(first: Iterable[Images], second: Iterable[Images]) -> NDArray[np.int64]:
    """Pairs [n, 2]: each picture of `second` [M, C, H, W] that is like one of `first` [N, C, H, W], and the likest.

    Both come in batches: all pictures need not fit in memory.
    """
    a, b = _outlines(first), _outlines(second)
    if not len(a):
        return np.zeros((0, 2), dtype=np.int64)
    nearest = [(part @ a.T).max(1) for part in torch.split(b, 1024)]
    likeness, which = (torch.cat(parts) for parts in zip(*nearest, strict=True))
    found = torch.nonzero(likeness > ALIKE)[:, 0]
    return torch.stack([which[found], found], 1).numpy()


def _outlines(batches: Iterable[Images]) -> torch.Tensor:
    """Pictures [N, C, H, W] as unit vectors [N, D] whose products are correlations; flat pictures as zeros."""
    parts = []
    for images in batches:
        grey = torch.from_numpy(images).float().mean(1, keepdim=True)
        small = functional.interpolate(grey, (SIDE, SIDE), mode="bilinear", antialias=True).flatten(1)
        centred = small - small.mean(1, keepdim=True)
        length = centred.norm(dim=1, keepdim=True)
        parts.append(torch.where(length > FLAT * SIDE, centred / length.clamp_min(1e-12), 0.0))
    return torch.cat(parts) if parts else torch.zeros(0, SIDE * SIDE)
