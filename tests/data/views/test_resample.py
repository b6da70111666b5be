import numpy as np
import pytest
import torch

from surelabel.data.views.resample import resample


def plain(image, down, across, rounded):
    """[C, H, W] by einsum, with one rounding for each axis."""
    wide = rounded(np.einsum("chw,vw->chv", image, across / across.sum(1, keepdims=True)))
    return rounded(np.einsum("chv,uh->cuv", wide, down / down.sum(1, keepdims=True)))


@pytest.mark.parametrize("shape", [(3, 9, 7, 4, 11), (1, 1, 1, 3, 2), (2, 5, 30, 1, 1)])
def test_resample_equals_einsum(shape):
    channels, height, width, new_height, new_width = shape
    random = np.random.default_rng(0)
    images = random.integers(256, size=(20, channels, height, width))
    down, across = random.random((20, new_height, height)), random.random((20, new_width, width))
    weights = torch.from_numpy(down), torch.from_numpy(across)
    floats = resample(torch.from_numpy(images.astype(np.float32)), *weights).numpy()
    levels = resample(torch.from_numpy(images.astype(np.uint8)), *weights).numpy()
    assert (floats.dtype, levels.dtype) == (np.float32, np.uint8)
    for number, image in enumerate(images):
        own = image, down[number], across[number]
        np.testing.assert_allclose(floats[number], plain(*own, rounded=lambda values: values), rtol=1e-6)
        off = levels[number] - plain(*own, rounded=lambda values: np.floor(values + 0.5))
        assert np.abs(off).max() <= 1
        assert (off != 0).mean() < 0.02
