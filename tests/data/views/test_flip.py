import numpy as np
import pytest
import torch

from surelabel.data.views import Flip
from tests.data.views.photographs import crops


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_flip_for_draws_below_a_half(dtype):
    images = crops(3, 3, 8, 11).astype(dtype)
    views = Flip()(torch.from_numpy(images), torch.tensor([[0.0], [0.5], [0.4999]])).numpy()
    np.testing.assert_array_equal(views, np.stack([images[0][:, :, ::-1], images[1], images[2][:, :, ::-1]]))
