"""Find near-duplicate images, as leakage makes a test accuracy too high."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from surelabel.data.source import Images

SIDE = 16
ALIKE = 0.995  # correlation of 16 × 16 images; scaling, dimming and JPEG at quality 75 keep it above this
FLAT = 1e-3


def near_duplicates(first: Iterable[Images], second: Iterable[Images]) -> NDArray[np.int64]:
    """Pairs of indices [n, 2]: the most similar image of `first`, and its near-duplicate in `second`.

    Both are iterables of batches [B, C, H, W], which need not fit in memory together.
    """
    a, b = _unit_vectors(first), _unit_vectors(second)
    if not len(a):
        return np.zeros((0, 2), dtype=np.int64)
    nearest = [(part @ a.T).max(1) for part in torch.split(b, 1024)]
    similarity, which = (torch.cat(parts) for parts in zip(*nearest, strict=True))
    found = torch.nonzero(similarity > ALIKE)[:, 0]
    return torch.stack([which[found], found], 1).numpy()


def _unit_vectors(batches: Iterable[Images]) -> torch.Tensor:
    """Images as unit vectors [N, D] whose dot products are correlations; images of one colour as zeros."""
    parts = []
    for images in batches:
        grey = torch.from_numpy(images).float().mean(1, keepdim=True)
        small = functional.interpolate(grey, (SIDE, SIDE), mode="bilinear", antialias=True).flatten(1)
        centred = small - small.mean(1, keepdim=True)
        length = centred.norm(dim=1, keepdim=True)
        parts.append(torch.where(length > FLAT * SIDE, centred / length.clamp_min(1e-12), 0.0))
    return torch.cat(parts) if parts else torch.zeros(0, SIDE * SIDE)
