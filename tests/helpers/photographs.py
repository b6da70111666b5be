"""Two photographs, and how encoders are compared on them."""

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_image


def photographs():
    """At a size that is scaled to 96 × 64 without a remainder, which everybody rounds otherwise."""
    names = "flower.jpg", "china.jpg"
    return [Image.fromarray(load_sample_image(name)).crop((0, 0, 480, 320)) for name in names]


def seen_by(encoder, pictures):
    """The pictures [n, 3, side, side] as they are decoded for an encoder."""
    seen = encoder.preprocessing
    return np.stack([np.asarray(seen.scaling.scaled(one, seen.side, seen.side)) for one in pictures]).transpose(
        0, 3, 1, 2
    )


def normalised(pictures, encoder):
    """The same as the encoder's network takes them."""
    seen = encoder.preprocessing
    mean, std = (torch.tensor(values, dtype=torch.float64).view(3, 1, 1) for values in (seen.mean, seen.std))
    return ((torch.from_numpy(pictures) - mean) / std).float()
