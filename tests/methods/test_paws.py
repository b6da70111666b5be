"""PAWS against plain loops over samples and results by hand."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from surelabel.config.methods import find
from surelabel.config.run import Network as Settings
from surelabel.config.run import Paws as PawsSettings
from surelabel.config.run import RunConfig
from surelabel.data.batch import Crops, Task
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.targets import Sharpen
from surelabel.training import build
from tests.helpers import runs

TASK = Task((1, 8, 8), ("a", "b", "c"), "float32", (0.0,), (1.0,))
SUPPORT, POOL, SMALLS = 6, 5, 3


def make_network(method="paws", **settings):
    """In evaluation mode, so that an output does not depend on the batch, and float64."""
    config = RunConfig(
        method=method, network=Settings("wrn-10-1", norm_momentum=0.1), paws=PawsSettings(width=8, **settings)
    )
    made = build.build_network(config, TASK).double().eval()
    for norm in (module for module in made.modules() if isinstance(module, torch.nn.BatchNorm1d)):
        norm.running_var.fill_(1e-4)  # so that assignments differ
    return made


@pytest.fixture
def batch():
    torch.manual_seed(1)
    support, large = (torch.randn(n, 1, 8, 8, dtype=torch.float64) for n in (SUPPORT, 2 * POOL))
    small = torch.randn(SMALLS * POOL, 1, 4, 4, dtype=torch.float64)
    hidden = torch.zeros(POOL, dtype=torch.long)
    return Crops(support, torch.tensor([0, 0, 1, 1, 2, 2]), large, small, hidden, SUPPORT, seed=5, step=2)


def representation(network, image, noise=None):
    with torch.no_grad():
        return network(image[None], noise).outputs[0]


def assignment(z, support, labels, temperature):
    """Eq. (2) for one view, as a list."""

    def similarity(a, b):
        dot = sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))
        return math.exp(dot / math.sqrt(float((a * a).sum())) / math.sqrt(float((b * b).sum())) / temperature)

    weights = [similarity(z, s) for s in support]
    return [sum(w * y[k] for w, y in zip(weights, labels, strict=True)) / sum(weights) for k in range(3)]


def sharpened(probs, t):
    powers = [p ** (1 / t) for p in probs]
    return [power / sum(powers) for power in powers]


def by_hand(network, teacher, batch, method, noise=None):
    """(unlabelled loss, me-max term) by loops."""
    smooth = method.smoothing
    labels = [[(1 - smooth) * (k == label) + smooth / 3 for k in range(3)] for label in batch.labels.tolist()]
    support = [representation(network, image, noise)[-1] for image in batch.support]
    taught = [representation(teacher, image, noise)[0] for image in batch.support]
    t = method.target.temperature

    def predict(image):
        return assignment(representation(network, image, noise)[-1], support, labels, method.temperature)

    def target(image):
        return sharpened(assignment(representation(teacher, image, noise)[0], taught, labels, method.temperature), t)

    loss, predictions = 0.0, []
    for i in range(POOL):
        targets = [target(batch.large[i]), target(batch.large[POOL + i])]
        mean = [(a + b) / 2 for a, b in zip(*targets, strict=True)]
        views = [(batch.large[i], targets[1]), (batch.large[POOL + i], targets[0])]
        views += [(batch.small[n * POOL + i], mean) for n in range(SMALLS)]
        for image, wanted in views:
            predictions.append(predict(image))
            kept = [w if w >= 1e-4 else 0.0 for w in wanted]
            loss -= sum(w * math.log(p) for w, p in zip(kept, predictions[-1], strict=True))
    count = (2 + SMALLS) * POOL
    sharp = [sharpened(p, t) for p in predictions]
    average = [sum(p[k] for p in sharp) / count for k in range(3)]
    return loss / count, sum(p * math.log(p) for p in average)


@pytest.mark.parametrize("prediction_head", [False, True])
@pytest.mark.parametrize("self_teaching", [True, False])
def test_paws_loss_equals_a_plain_loop(batch, self_teaching, prediction_head):
    network = make_network(prediction_head=prediction_head)
    teacher = copy.deepcopy(network)
    if not self_teaching:
        with torch.no_grad():
            for parameter in teacher.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
    method = replace(find("paws"), self_teaching=self_teaching)
    losses, state = method.loss(network, teacher, batch, method.init(runs.POOL), 0)
    unlabelled, me_max = by_hand(network, teacher, batch, method)
    assert losses.parts["unlabelled"].item() == pytest.approx(unlabelled, abs=1e-9)
    assert losses.parts["me_max"].item() == pytest.approx(me_max, abs=1e-9)
    assert losses.total.item() == pytest.approx(unlabelled + me_max, abs=1e-9)
    assert state == {}


def test_bam_paws_loss_has_one_draw_and_the_kl(batch):
    method = replace(find("bam-paws"), prior=PriorLoss(weight=0.5, warmup=8, samples=100))
    network = make_network("bam-paws")
    losses, _ = method.loss(network, network, batch, {}, 2)
    noise = network.head.noise(batch.draws("weights"))
    unlabelled, me_max = by_hand(network, network, batch, method, noise)
    kl = sum(float(part.detach().sum()) for part in network.head.kl()) / 100
    assert losses.parts["prior"].item() == pytest.approx(kl)
    weight = 0.5 * (1 - math.cos(math.pi / 4)) / 2
    assert losses.total.item() == pytest.approx(unlabelled + me_max + weight * kl, abs=1e-6)


def test_bam_paws_noise_has_the_std_of_a_mean():
    """Two-sided test of the variance of 4000 draws against its chi-squared law: fails by chance once in a million."""
    from scipy.stats import chi2

    network = make_network("bam-paws").float()
    features = torch.randn(1, network.backbone.features)
    generator = build.generator(0, "test")
    with torch.no_grad():
        draws = torch.stack([network.head(features, network.head.noise(generator))[0, 0] for _ in range(4000)])
        mean, std = network.head.last.moments(network.head.hidden(features))
    ratio = draws.double().var(0) / (std[0].double().square() / 50)
    low, high = chi2.ppf([5e-7 / 8, 1 - 5e-7 / 8], 3999) / 3999
    assert ((ratio > low) & (ratio < high)).all()
    assert ((draws.double().mean(0) - mean[0]).abs() < 6 * std[0] / math.sqrt(50 * 4000)).all()


def test_paws_has_no_gradient_into_targets_or_teacher(batch):
    network = make_network()
    teacher = copy.deepcopy(network)
    large = batch.large.clone().requires_grad_()
    method = replace(find("paws"), self_teaching=False, me_max=False)
    losses, _ = method.loss(network, teacher, replace(batch, large=large), {}, 0)
    losses.total.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    # Self-teaching has the gradient of fixed targets.
    fixed = large.grad.clone()
    large.grad = None
    losses, _ = replace(method, self_teaching=True).loss(network, network, replace(batch, large=large), {}, 0)
    losses.total.backward()
    torch.testing.assert_close(large.grad, fixed)


@pytest.mark.parametrize("method", ["paws", "bam-paws"])
def test_paws_teacher_copy_equals_self_teaching(batch, method):
    """In training mode too: before its onset, PAWS+SWA is PAWS."""
    network = make_network(method).train()
    teacher = copy.deepcopy(network)
    before = copy.deepcopy(teacher.state_dict())
    alone, _ = find(method).loss(copy.deepcopy(network), network, batch, {}, 0)
    taught, _ = replace(find(method), self_teaching=False).loss(network, teacher, batch, {}, 0)
    torch.testing.assert_close(taught.total, alone.total, rtol=1e-12, atol=0)
    after = teacher.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before if "running" in key)


def test_paws_me_max_raises_the_entropy(batch):
    network = make_network()
    method = find("paws")

    def entropy():
        losses, _ = method.loss(network, network, batch, {}, 0)
        return -losses.parts["me_max"]

    before = entropy()
    (-before).backward()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter.sub_(1e-3 * parameter.grad)
    assert entropy() > before


def test_paws_without_me_max(batch):
    network = make_network()
    losses, _ = replace(find("paws"), me_max=False).loss(network, network, batch, {}, 0)
    assert set(losses.parts) == {"unlabelled"}
    assert losses.total.item() == losses.parts["unlabelled"].item()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_paws_class_without_support_is_never_assigned(batch, smoothing):
    network = make_network()
    without = replace(batch, labels=torch.tensor([0, 0, 1, 1, 0, 1]))
    losses, _ = replace(find("paws"), smoothing=smoothing).loss(network, network, without, {}, 0)
    losses.total.backward()
    assert (losses.prediction.probs[:, 2] == 0).all()
    assert torch.isfinite(losses.total)
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_paws_assigns_in_full_precision(batch):
    """With τ = 0.1, the rounding of a similarity in bfloat16 would change a weight by several percent."""
    paws = find("paws")
    z = torch.randn(SUPPORT + 2 * POOL, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.eye(3)[batch.labels]
    full = paws._assign(z, labels, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(paws._assign(z, labels, batch), full, rtol=0, atol=0)
        rounded = paws._assign(z.bfloat16(), labels, batch)
    assert full.dtype == rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, paws._assign(z.bfloat16().float(), labels, batch), rtol=0, atol=0)


def test_paws_loss_by_hand():
    """One support image per class, orthogonal, views equal to the first, no small ones: q = e^(1/τ) / (e^(1/τ) + 1)."""
    network = make_network()

    class Fixed(torch.nn.Module):
        head = network.head

        def forward(self, sizes, noise=None):
            z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
            return type("Out", (), {"outputs": z[:, None], "kl": None})()

    images = torch.zeros(2, 1, 8, 8)
    batch = Crops(images, torch.tensor([0, 1]), images, None, torch.tensor([0]), 2, seed=0, step=0)
    method = replace(find("paws"), temperature=0.5, smoothing=0.0, target=Sharpen(0.5))
    losses, _ = method.loss(Fixed(), network, batch, {}, 0)
    q = math.exp(2) / (math.exp(2) + 1)
    t = q**2 / (q**2 + (1 - q) ** 2)
    assert losses.parts["unlabelled"].item() == pytest.approx(-t * math.log(q) - (1 - t) * math.log(1 - q), abs=1e-12)
    assert losses.parts["me_max"].item() == pytest.approx(t * math.log(t) + (1 - t) * math.log(1 - t), abs=1e-12)


def test_paws_ignores_hidden_labels(batch):
    network = make_network()
    first, _ = find("paws").loss(network, network, batch, {}, 0)
    other, _ = find("paws").loss(network, network, replace(batch, hidden=batch.hidden + 2), {}, 0)
    assert torch.equal(first.total, other.total)
