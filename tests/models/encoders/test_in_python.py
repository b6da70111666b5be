import numpy as np
import pytest
import torch

from surelabel.models.encoders.base import Preprocessing, TorchEncoder
from surelabel.models.encoders.in_python import opened
from surelabel.utils.errors import UserError

PICTURES = np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8)


def means(pictures):
    return pictures.mean((2, 3))


def test_a_function_is_an_encoder_whose_features_are_not_stored():
    encoder = opened(means, None)
    np.testing.assert_allclose(encoder(PICTURES), PICTURES.mean((2, 3)), rtol=1e-6)
    assert (encoder.dimensions, encoder.fingerprint, encoder.preprocessing) == (3, "", None)
    assert opened(means, 16).preprocessing.side == 16


def test_a_module_is_known_by_its_weights():
    class Means(torch.nn.Linear):
        def forward(self, pictures):
            return super().forward(pictures.float().mean((2, 3)))

    first, second = Means(3, 4), Means(3, 4)
    encoder = opened(first, None)
    np.testing.assert_allclose(encoder(PICTURES), first(torch.from_numpy(PICTURES)).detach(), rtol=1e-6)
    assert encoder.fingerprint == opened(first, None).fingerprint != opened(second, None).fingerprint


def test_an_encoder_is_itself():
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    encoder = TorchEncoder("mine", network, Preprocessing(8, (100.0,) * 3, (50.0,) * 3))
    assert opened(encoder, None) is encoder
    np.testing.assert_allclose(encoder(PICTURES), (PICTURES.mean((2, 3)) - 100) / 50, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("given", [5, lambda pictures: pictures, lambda pictures: pictures.mean((0, 2, 3))])
def test_what_is_no_encoder_is_refused(given):
    with pytest.raises(UserError, match="encoder"):
        opened(given, 8)
