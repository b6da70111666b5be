import copy
import math

import pytest
import torch
from torch import nn

from surelabel.training.average import EMA, SWA, CosineEMA, WarmupEMA, averaged


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


DECAYS = {
    EMA(0.9): lambda n: 0.9,
    EMA(0.9, warm=True): lambda n: min(0.9, (1 + n) / (10 + n)),
    WarmupEMA(0.8, warmup=10): lambda n: min(0.8, 0.08 * n),
    WarmupEMA(0.8, warmup=0): lambda n: 0.8,
    CosineEMA(0.25, steps=30): lambda n: 1 - 0.75 * (1 + math.cos(math.pi * n / 30)) / 2,
}


@pytest.mark.parametrize("rule", DECAYS, ids=str)
def test_ema_equals_its_closed_form(rule):
    """θ_g = Σ_i θ_i (1 - γ_i) Π_{j>i} γ_j, where the first update copies: γ_0 counts as 0."""
    made, seen = None, []
    for network in networks(30):
        made = made or averaged(network, rule)
        made.update_parameters(network)
        seen.append(network[0].weight.detach().clone())
    decays = [0.0, *(DECAYS[rule](n) for n in range(1, 30))]
    expected = sum(
        weights * (1 - decay) * math.prod(decays[i + 1 :])
        for i, (weights, decay) in enumerate(zip(seen, decays, strict=True))
    )
    torch.testing.assert_close(made.module[0].weight, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("onset", [0, 1, 7, 29, 40])
def test_swa_copies_then_averages(onset):
    made, seen = None, []
    for number, network in enumerate(networks(30), start=1):
        made = made or averaged(network, SWA(onset))
        made.update_parameters(network)
        seen.append(network[0].weight.detach().clone())
        first = max(onset, 1)  # the first update copies
        expected = seen[-1] if number <= onset else torch.stack(seen[first - 1 :]).mean(0)
        torch.testing.assert_close(made.module[0].weight, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("buffers", ["copy", "average"])
def test_averaged_copies_or_averages_running_statistics(buffers):
    made, expected = None, None
    for network in networks(10):
        made = made or averaged(network, EMA(0.5), buffers)
        made.update_parameters(network)
        now = network[1].running_mean.clone()
        expected = now if expected is None or buffers == "copy" else 0.5 * expected + 0.5 * now
    torch.testing.assert_close(made.module[1].running_mean, expected, atol=1e-12, rtol=0)
    assert made.module[1].num_batches_tracked == network[1].num_batches_tracked


def test_averaged_is_not_trained_and_can_be_saved():
    *_, network = networks(3)
    made = averaged(network, EMA(0.9, warm=True))
    assert not any(parameter.requires_grad for parameter in made.parameters())
    made.update_parameters(network)
    other = averaged(copy.deepcopy(network), EMA(0.9, warm=True))
    other.load_state_dict(made.state_dict())
    for average in (made, other):
        average.update_parameters(next(networks(1)))
    assert all(torch.equal(a, b) for a, b in zip(made.state_dict().values(), other.state_dict().values(), strict=True))
