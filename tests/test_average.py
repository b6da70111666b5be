import copy

import pytest
import torch
from torch import nn

from surelabel.average import moving_average
from surelabel.config import Average
from surelabel.schedules import ema_decay


def networks(count):
    """A network with BatchNorm at `count` moments of a training."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()
    for _ in range(count):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))
        network(torch.randn(8, 4, dtype=torch.float64) * 3 + 1)
        yield network


@pytest.mark.parametrize("warm", [False, True])
def test_the_average_is_the_exponential_moving_one_from_the_first_update_on(warm):
    made, expected = None, None
    for number, network in enumerate(networks(30)):
        made = made or moving_average(network, Average(0.9, warm=warm))
        made.update_parameters(network)
        now = network[0].weight.detach().clone()
        decay = ema_decay(0.9, number, warm)
        expected = now if expected is None else decay * expected + (1 - decay) * now
    torch.testing.assert_close(made.module[0].weight, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("buffers", ["copy", "average"])
def test_running_statistics_are_copied_or_averaged_and_the_batch_counter_is_copied(buffers):
    made, expected = None, None
    for network in networks(10):
        made = made or moving_average(network, Average(0.5, buffers=buffers))
        made.update_parameters(network)
        now = network[1].running_mean.clone()
        expected = now if expected is None or buffers == "copy" else 0.5 * expected + 0.5 * now
    torch.testing.assert_close(made.module[1].running_mean, expected, atol=1e-12, rtol=0)
    assert made.module[1].num_batches_tracked == network[1].num_batches_tracked


def test_the_average_is_not_trained_and_survives_saving():
    *_, network = networks(3)
    made = moving_average(network, Average(0.9, warm=True))
    assert not any(parameter.requires_grad for parameter in made.parameters())
    assert not made.module.training
    made.update_parameters(network)
    other = moving_average(copy.deepcopy(network), Average(0.9, warm=True))
    other.load_state_dict(made.state_dict())
    for average in (made, other):
        average.update_parameters(next(networks(1)))
    assert all(torch.equal(a, b) for a, b in zip(made.state_dict().values(), other.state_dict().values(), strict=True))
