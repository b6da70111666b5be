import numpy as np
import pytest
import torch
from torch import nn

from surelabel.models.backbones.trained_encoder import TrainedEncoder
from surelabel.models.encoders.base import Preprocessing, TorchEncoder
from surelabel.models.network import normalised_by


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return TorchEncoder("small", nn.Sequential(*layers), Preprocessing(8, (100.0, 110.0, 120.0), (50.0, 60.0, 70.0)))


PICTURES = np.random.default_rng(0).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)


def test_it_begins_as_the_encoder_and_leaves_it_alone(encoder):
    further, before = TrainedEncoder(encoder, "frozen").train(), encoder(PICTURES)
    found = further(torch.from_numpy(PICTURES).float())
    np.testing.assert_allclose(found.detach(), before, rtol=1e-5, atol=1e-6)  # nothing is dropped at random
    found.square().sum().backward()
    with torch.no_grad():
        for parameter in further.parameters():
            assert parameter.grad is not None
            parameter.sub_(parameter.grad)
    np.testing.assert_array_equal(encoder(PICTURES), before)
    assert np.abs(further(torch.from_numpy(PICTURES).float()).detach().numpy() - before).max() > 1e-3


@pytest.mark.parametrize("norm", ["frozen", "batch"])
def test_batch_norm_keeps_its_statistics_unless_asked_not_to(encoder, norm):
    further = TrainedEncoder(encoder, norm)
    statistics = further.network.network[1].running_mean
    before = statistics.clone()
    images = torch.from_numpy(PICTURES).float()
    further.train()(images)
    assert torch.equal(statistics, before) == (norm == "frozen")
    before = statistics.clone()
    with normalised_by("batch", further):
        further.eval()(images)
    assert torch.equal(statistics, before)
