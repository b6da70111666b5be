import numpy as np
import pytest
import torch

from surelabel.data.views import Cutout
from surelabel.utils.errors import UserError
from surelabel.utils.rng import uniforms
from tests.data.views.photographs import crops
from tests.data.views.pillow_policy import cutout, from_pillow, to_pillow


@pytest.mark.parametrize("size", [None, 0, 5, 40])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 24, 40)])
def test_cutout_equals_pillow(shape, size):
    images, u = crops(300, *shape), uniforms(0, "test", 0, 300, 2)
    views = Cutout(size)(torch.from_numpy(images), torch.from_numpy(u))
    side = min(shape[1:]) // 2 if size is None else size
    expected = [from_pillow(cutout(to_pillow(image), own, side)) for image, own in zip(images, u.tolist(), strict=True)]
    np.testing.assert_array_equal(views.numpy(), np.stack(expected))


def test_cutout_clips_the_start_and_includes_the_end():
    view = Cutout(16)(torch.zeros(2, 1, 32, 32, dtype=torch.uint8), torch.tensor([[0.0, 0.5], [0.999, 0.0]]))
    painted = [torch.nonzero(image[0] == 127) for image in view]
    assert [(p.amin(0).tolist(), p.amax(0).tolist()) for p in painted] == [([8, 0], [24, 16]), ([0, 23], [16, 31])]


@pytest.mark.parametrize("settings", [{"size": -1}, {"fill": 256}, {"fill": -1}])
def test_cutout_rejects_impossible_settings(settings):
    with pytest.raises(UserError, match="size must be 0 or more and fill"):
        Cutout(**settings)
