"""Algorithm 1 against a plain loop over samples."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.config.run import Network as Settings
from surelabel.config.run import RunConfig, Target
from surelabel.data.batch import Batch, Task
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import Confidence, Uncertainty
from surelabel.models.heads import BayesianHead
from surelabel.models.network import Network, normalised_by
from surelabel.training import build
from tests.helpers.runs import POOL

DRAWS = np.random.default_rng(0)  # not used by a linear head
TASK = Task((1, 8, 8), ("a", "b", "c"), "float32", (0.0,), (1.0,))


@pytest.fixture
def network():
    """In evaluation mode, so that an output does not depend on the batch, and float64."""
    made = build.build_network(RunConfig(network=Settings("wrn-10-1", norm_momentum=0.1)), TASK).double().eval()
    with torch.no_grad():
        made.head.weight *= 30  # so that some are accepted and some are not
    return made


@pytest.fixture
def batch():
    torch.manual_seed(1)
    labelled, weak, strong = (torch.randn(n, 1, 8, 8, dtype=torch.float64) for n in (4, 24, 24))
    return Batch(labelled, torch.tensor([0, 1, 2, 1]), weak, strong, torch.zeros(24, dtype=torch.long))


def by_hand(network, batch, threshold, temperature, weight):
    labelled = 0.0
    for image, label in zip(batch.labelled, batch.labels, strict=True):
        labelled -= math.log(network.predict(image[None], DRAWS).probs[0, label]) / len(batch.labels)
    unlabelled, accepted = 0.0, 0
    for weak, strong in zip(batch.weak, batch.strong, strict=True):
        q = network.predict(weak[None], DRAWS).probs[0].tolist()
        if max(q) < threshold:
            continue
        accepted += 1
        if temperature == 0:
            target = [float(k == q.index(max(q))) for k in range(3)]
        else:
            target = [p ** (1 / temperature) / sum(r ** (1 / temperature) for r in q) for p in q]
        learnt = network.predict(strong[None], DRAWS).probs[0].tolist()
        unlabelled -= sum(t * math.log(p) for t, p in zip(target, learnt, strict=True)) / len(batch.weak)
    return labelled, unlabelled, labelled + weight * unlabelled, accepted


@pytest.mark.parametrize("forward", ["split", "joint"])
@pytest.mark.parametrize(
    ("name", "threshold", "temperature"), [("fixmatch", 0.95, 0), ("uda", 0.8, 0.4), ("pseudo-label", 0.95, 0)]
)
def test_self_training_loss_equals_a_plain_loop(network, batch, name, threshold, temperature, forward):
    method = replace(find(name), forward=forward, weight=1.7)
    losses, _ = method.loss(network, network, batch, method.select.init(POOL), 0)
    labelled, unlabelled, total, accepted = by_hand(network, batch, threshold, temperature, 1.7)
    assert 0 < accepted < len(batch.weak)
    assert int(losses.accepted.sum()) == accepted
    assert losses.parts["labelled"].item() == pytest.approx(labelled, abs=1e-10)
    assert losses.parts["unlabelled"].item() == pytest.approx(unlabelled, abs=1e-10)
    assert losses.total.item() == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("forward", ["split", "joint"])
def test_self_training_has_no_gradient_through_pseudo_labels(network, batch, forward):
    method = replace(find("uda"), forward=forward)
    weak = batch.weak.clone().requires_grad_()
    losses, _ = method.loss(network, network, replace(batch, weak=weak), {}, 0)
    losses.total.backward()
    assert weak.grad is None or not weak.grad.any()


def test_self_training_has_no_gradient_to_the_teacher(network, batch):
    teacher = copy.deepcopy(network)
    losses, _ = find("uda").loss(network, teacher, batch, {}, 0)
    losses.total.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_self_training_ignores_hidden_labels(network, batch):
    for name in ("fixmatch", "uda", "pseudo-label"):
        first, _ = find(name).loss(network, network, batch, {}, 0)
        other, _ = find(name).loss(network, network, replace(batch, hidden=batch.hidden + 2), {}, 0)
        assert torch.equal(first.total, other.total)


def test_supervised_has_only_the_labelled_loss(network, batch):
    losses, _ = find("supervised").loss(network, network, Batch(batch.labelled, batch.labels), {}, 0)
    assert losses.total.item() == pytest.approx(by_hand(network, batch, 2, 0, 0)[0], abs=1e-10)
    assert set(losses.parts) == {"labelled"}


@pytest.mark.parametrize("weak_norm", ["batch", "batch-kept", "running"])
def test_self_training_weak_norm_is_used(network, batch, weak_norm):
    network.train()
    network(batch.labelled)
    expected = copy.deepcopy(network)
    with normalised_by(weak_norm, expected):
        probs = expected.predict(batch.weak, DRAWS).probs
    losses, _ = replace(find("fixmatch"), weak_norm=weak_norm).loss(network, network, batch, {}, 0)
    assert torch.equal(losses.prediction.probs, probs)


@pytest.mark.parametrize("forward", ["split", "joint"])
def test_interpolated_logits_lie_between_those_of_two_normalisations(network, batch, forward):
    """AdaMatch: the whole batch's statistics, and those of the labelled samples alone, which leave no trace."""
    method = replace(find("fixmatch"), interpolate=True, forward=forward, select=Confidence(2.0))
    network.train()
    whole, alone = copy.deepcopy(network), copy.deepcopy(network)
    learnt = [batch.labelled, batch.strong] + ([batch.weak] if forward == "joint" else [])
    first, second = whole(torch.cat(learnt)).outputs[:4], alone(batch.labelled).outputs
    share = torch.from_numpy(batch.draws("interpolation").random((4, 3), dtype=np.float32))
    logits = share * first + (1 - share) * second
    losses, _ = method.loss(network, network, batch, {}, 0)
    expected = -logits.log_softmax(1)[torch.arange(4), batch.labels].mean()
    assert losses.total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert not torch.allclose(first, second, rtol=1e-3)
    kept = whole.state_dict()
    for name, mine in network.state_dict().items():
        if "running" in name:
            torch.testing.assert_close(mine, kept[name])


@pytest.mark.parametrize("form", ["elbo", "mean"])
@pytest.mark.parametrize("forward", ["split", "joint"])
def test_bam_loss_equals_algorithm_1(batch, forward, form):
    """One draw of the weights for the logits, M for the pseudo-labels; selection by std; the KL term."""
    prior = PriorLoss(form, weight=0.7, warmup=10, samples=500)
    method = replace(find("bam-uda"), forward=forward, prior=prior, select=Uncertainty(0.6, start=0.5, warmup=4))
    backbone = build.build_network(RunConfig(network=Settings("wrn-10-1")), TASK).backbone
    network = Network(backbone, BayesianHead(backbone.features, 3, method.head), TASK).double().eval()
    batch = replace(batch, seed=5, step=2)
    losses, state = method.loss(network, network, batch, method.select.init(POOL), 2)

    draw = batch.draws("weights")
    noise = torch.from_numpy(draw.standard_normal((3, backbone.features + 1), dtype=np.float32))
    head = network.head
    weight = head.weight_mean + torch.nn.functional.softplus(head.weight_rho) * noise[:, :-1]
    bias = head.bias_mean + torch.nn.functional.softplus(head.bias_rho) * noise[:, -1]
    learnt = [
        (network.features(images).double() @ weight.T + bias).log_softmax(-1).detach()
        for images in (batch.labelled, batch.strong)
    ]
    prediction = head.predict(network.features(batch.weak), batch.draws("pseudo-labels"))
    variance = [float(prediction.std[n, prediction.probs[n].argmax()]) ** 2 for n in range(24)]
    threshold = np.quantile(np.float32(variance), 0.55)
    unlabelled = 0.0
    for n in range(24):
        if variance[n] <= threshold + 1e-9:
            powers = prediction.probs[n].double() ** (1 / 0.9)
            unlabelled -= float((powers / powers.sum() * learnt[1][n]).sum()) / 24
    labelled = -float(learnt[0][torch.arange(4), batch.labels].mean())
    kl = [divergence.detach() for divergence in head.kl()]
    term = sum(float(k.sum()) for k in kl) / 500 if form == "elbo" else sum(float(k.mean()) for k in kl) / 4
    expected = labelled + unlabelled + 0.7 * (1 - math.cos(math.pi * 0.2)) / 2 * term
    assert 0 < losses.accepted.sum() < 24
    assert losses.total.item() == pytest.approx(expected, rel=1e-6)
    assert losses.parts["prior"].item() == pytest.approx(term, rel=1e-6)
    assert len(state["quantiles"]) == 1


@pytest.mark.parametrize("forward", ["split", "joint"])
def test_bam_sharpens_samples_only_for_pseudo_labels(batch, forward):
    """As in the released code; evaluation does not sharpen."""
    target = Target(0.5, sharpen_samples=True)
    config = RunConfig(method="bam-uda", network=Settings("wrn-10-1"), target=target, forward=forward)
    method = build.build_method(config)
    network = build.build_network(config, TASK).double().eval()
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)
    plain = network.predict(batch.weak, batch.draws("pseudo-labels")).probs
    sharp = network.head.predict(network.features(batch.weak), batch.draws("pseudo-labels"), temperature=0.5).probs
    assert torch.allclose(losses.prediction.probs, sharp)
    assert not torch.allclose(plain, sharp, rtol=1e-3)
