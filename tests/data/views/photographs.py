"""Small real images: crops of scikit-learn's two sample photographs."""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images


def crops(count: int, channels: int, height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """[count, channels, height, width], one channel being the photograph's green."""
    random = np.random.default_rng(seed)
    photographs = load_sample_images().images
    images = np.empty((count, 3, height, width), dtype=np.uint8)
    for number in range(count):
        photograph = photographs[number % 2]
        top = random.integers(photograph.shape[0] - height)
        left = random.integers(photograph.shape[1] - width)
        images[number] = photograph[top : top + height, left : left + width].transpose(2, 0, 1)
    return images if channels == 3 else np.ascontiguousarray(images[:, 1:2])
