import copy

import numpy as np
import pytest
import torch

from surelabel.config.run import Network as Settings
from surelabel.config.run import RunConfig
from surelabel.data.batch import Task
from surelabel.models.network import normalised_by
from surelabel.training import build

RNG = np.random.default_rng(0)  # not used by a point estimate
TASK = Task((3, 8, 8), ("a", "b"), "uint8", (10.0, 20.0, 30.0), (2.0, 4.0, 8.0))
CONFIG = RunConfig(network=Settings("wrn-10-1", norm_momentum=0.1))


def test_network_normalises_by_channel():
    network = build.build_network(CONFIG, TASK).eval()
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    channels = [(images[:, c].float() - TASK.offset[c]) / TASK.scale[c] for c in range(3)]
    normalised = torch.stack(channels, dim=1)
    features, logits, _ = network(images)
    torch.testing.assert_close(features, network.backbone(normalised))
    torch.testing.assert_close(logits, network.head(features))
    torch.testing.assert_close(network.predict(images, RNG).probs, logits.softmax(-1).detach())


def test_network_weights_depend_only_on_the_seed():
    before = torch.random.get_rng_state()
    first = build.build_network(CONFIG, TASK).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.rand(3)
    again = build.build_network(CONFIG, TASK).state_dict()
    other = build.build_network(RunConfig(seed=1, network=CONFIG.network), TASK).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_network_backbone_weights_do_not_depend_on_the_head():
    """This makes methods comparable by seed."""
    made = [
        build.build_network(RunConfig(method=method, network=CONFIG.network), TASK).backbone.state_dict()
        for method in ("supervised", "fixmatch", "bam-fixmatch", "paws", "bam-paws+ema")
    ]
    assert all(torch.equal(first, weights[name]) for weights in made[1:] for name, first in made[0].items())


def test_network_small_crops_keep_running_statistics():
    network = build.build_network(CONFIG, TASK).train()
    alone, small_alone = copy.deepcopy(network), copy.deepcopy(network)
    large, small = torch.rand(16, 3, 8, 8) * 50, torch.rand(12, 3, 4, 4) * 90
    outputs = network([large, small]).outputs
    torch.testing.assert_close(outputs[:16], alone(large).outputs)
    torch.testing.assert_close(outputs[16:], small_alone(small).outputs)
    mine, expected = network.state_dict(), alone.state_dict()
    assert all(torch.equal(mine[key], expected[key]) for key in mine if "running" in key)


@pytest.mark.parametrize("how", ["batch", "batch-kept", "running"])
def test_normalised_by_sets_and_restores_the_statistics(how):
    network = build.build_network(CONFIG, TASK).train()
    images, others = torch.rand(16, 3, 8, 8) * 50, torch.rand(16, 3, 8, 8) * 90
    network(others)
    before = copy.deepcopy(network)
    with normalised_by(how, network):
        found = network.predict(images, RNG).probs
    expected = (before.eval() if how == "running" else copy.deepcopy(before)).predict(images, RNG).probs
    assert torch.equal(found, expected)
    stayed = torch.equal(before.backbone.norm.running_mean, network.backbone.norm.running_mean)
    assert stayed == (how != "batch")
    assert network.backbone.norm.momentum == 0.1
    assert all(module.training for module in network.modules())
