import weakref

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from surelabel.models import heads
from surelabel.models.heads import Bayesian, BayesianHead, LinearHead
from surelabel.utils.rng import generator


def bayesian(features=6, classes=4, spread=-1.0, **settings) -> BayesianHead:
    torch.manual_seed(0)
    head = BayesianHead(features, classes, Bayesian(**settings))
    with torch.no_grad():
        head.weight_mean *= 8
        head.weight_rho.add_(3 + spread)
        head.bias_rho.add_(3 + spread)
    return head


def test_linear_head_predicts_its_softmax_without_std():
    head = LinearHead(7, 3)
    features = torch.randn(5, 7)
    prediction = head.predict(features, generator(0, "x"))
    expected = torch.softmax(features @ head.weight.T + head.bias, dim=1)
    torch.testing.assert_close(prediction.probs, expected.detach())
    assert not prediction.probs.requires_grad
    assert prediction.std is None
    assert head.kl() is None


@pytest.mark.parametrize("prior", [1.0, 0.3])
def test_bayesian_head_kl_equals_torch_distributions(prior):
    head = bayesian(prior_std=prior).double()
    weights, biases = head.kl()
    for found, mean, rho in ((weights, head.weight_mean, head.weight_rho), (biases, head.bias_mean, head.bias_rho)):
        torch.testing.assert_close(found, kl_divergence(Normal(mean, F.softplus(rho)), Normal(0.0, prior)))

    def total(mean, rho):
        return torch.func.functional_call(Kl(head), {"head.weight_mean": mean, "head.weight_rho": rho}, ())

    torch.autograd.gradcheck(total, (head.weight_mean, head.weight_rho))


class Kl(torch.nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self):
        return self.head.kl()[0].sum()


def test_bayesian_head_forward_is_one_reparametrised_draw():
    head = bayesian()
    features = torch.randn(3, 6)
    noise = head.noise(generator(0, "x"))
    weight = head.weight_mean + (1 + head.weight_rho.exp()).log() * noise[:, :-1]
    bias = head.bias_mean + (1 + head.bias_rho.exp()).log() * noise[:, -1]
    logits = head(features, noise)
    torch.testing.assert_close(logits, features @ weight.T + bias)
    logits.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


def test_bayesian_head_samplings_have_one_distribution():
    """Two-sample Kolmogorov-Smirnov tests of q̂ and σ at the likeliest class, for 5 samples.

    A right implementation fails one seed in a hundred: 10 tests at 0.001 each.
    """
    features = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    found = {}
    for sampling in ("logits", "weights"):
        head = bayesian(samples=50, sampling=sampling)
        likeliest = F.linear(features, head.weight_mean, head.bias_mean).argmax(-1, keepdim=True)
        rng = generator(0, sampling)
        runs = [head.predict(features, rng) for _ in range(400)]
        found[sampling] = [
            torch.stack([moment(run).gather(-1, likeliest).squeeze(-1) for run in runs]).numpy()
            for moment in (lambda run: run.probs, lambda run: run.std)
        ]
    for mine, theirs in zip(found["logits"], found["weights"], strict=True):
        for sample in range(5):
            assert stats.ks_2samp(mine[:, sample], theirs[:, sample]).pvalue > 1e-3


def test_bayesian_head_mean_equals_numerical_integration():
    """Within 4.5 standard errors, which a right implementation leaves for one seed in 50,000 (3 samples)."""
    samples = 400_000
    head = bayesian(features=3, classes=2, samples=samples)
    features = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    prediction = head.predict(features, generator(0, "x"))
    with torch.no_grad():
        mean = F.linear(features, head.weight_mean, head.bias_mean)
        variance = F.linear(features**2, F.softplus(head.weight_rho) ** 2, F.softplus(head.bias_rho) ** 2)
    for n in range(3):
        margin = Normal(mean[n, 0] - mean[n, 1], variance[n].sum().sqrt())
        centre, spread = float(margin.mean), float(margin.stddev)
        density = stats.norm(centre, spread).pdf
        exact, _ = integrate.quad(
            lambda m, d=density: d(m) / (1 + np.exp(-m)), centre - 12 * spread, centre + 12 * spread
        )
        error = float(prediction.std[n, 0]) / np.sqrt(samples)
        assert abs(float(prediction.probs[n, 0]) - exact) < 4.5 * error


def test_bayesian_head_without_sigma_is_a_point_estimate():
    features = torch.randn(4, 6)
    head = bayesian(spread=-30.0)
    prediction = head.predict(features, generator(0, "x"))
    assert prediction.std.max() < 1e-6
    point = F.linear(features, head.weight_mean, head.bias_mean).softmax(-1)
    torch.testing.assert_close(prediction.probs, point.detach())


@pytest.mark.parametrize("chunk", [1, 5 * 4 * 3, heads.CHUNK])
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_bayesian_head_moments_equal_a_plain_loop(sampling, chunk, monkeypatch):
    monkeypatch.setattr(heads, "CHUNK", chunk)
    head = bayesian(samples=7, sampling=sampling)
    features = torch.randn(5, 6)
    rng = generator(0, "x")
    if sampling == "weights":
        logits = np.stack([head(features, head.noise(rng)).detach().numpy() for _ in range(7)], 1)
    else:
        with torch.no_grad():
            mean = F.linear(features, head.weight_mean, head.bias_mean).numpy()
            variance = F.linear(features**2, F.softplus(head.weight_rho) ** 2, F.softplus(head.bias_rho) ** 2).numpy()
        noise = rng.standard_normal((5, 7, 4), dtype=np.float32)
        logits = mean[:, None] + np.sqrt(variance)[:, None] * noise
    powers = np.exp(logits.astype(np.float64) / 0.5)
    probs = powers / powers.sum(-1, keepdims=True)
    prediction = head.predict(features, generator(0, "x"), temperature=0.5)
    np.testing.assert_allclose(prediction.probs, probs.mean(1), atol=1e-6)
    np.testing.assert_allclose(prediction.std, probs.std(1), atol=1e-6)


def test_bayesian_head_chunks_change_nothing(monkeypatch):
    features = torch.randn(48, 6)
    head = bayesian(classes=1000)
    whole = head.predict(features, generator(0, "x"))
    seen = []
    normals = BayesianHead.normals
    monkeypatch.setattr(
        BayesianHead,
        "normals",
        lambda self, rng, *shape: seen.append(np.prod(shape)) or normals(self, rng, *shape),
    )
    monkeypatch.setattr(heads, "CHUNK", 10 * 50 * 1000)
    parts = head.predict(features, generator(0, "x"))
    assert len(seen) == 5
    assert max(seen) <= 10 * 50 * 1000
    assert torch.equal(whole.probs, parts.probs)
    assert torch.equal(whole.std, parts.std)


def test_mean_and_std_of_parts_is_accurate_for_small_std():
    """With std 1e-5 and mean near 1, the squares would differ by less than float32 resolves."""
    whole = 1 - 1e-5 * torch.rand(3, 50, 4, generator=torch.Generator().manual_seed(3))
    for size in (1, 9, 50):
        mean, std = heads._mean_and_std(whole.split(size, dim=1))
        np.testing.assert_allclose(mean, whole.double().mean(1), rtol=2e-7)
        np.testing.assert_allclose(std, whole.double().std(1, correction=0), rtol=0.01)


class PeakBytes(TorchDispatchMode):
    """The peak memory of all tensors seen, including those made by numpy."""

    def __init__(self):
        super().__init__()
        self.seen, self.peak = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for value in tree_leaves((args, made)):
            if isinstance(value, torch.Tensor):
                self.seen[id(value)] = weakref.ref(value)
        storages = [tensor.untyped_storage() for ref in self.seen.values() if (tensor := ref()) is not None]
        self.peak = max(self.peak, sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()))
        return made


@pytest.mark.slow
@pytest.mark.parametrize("method", ["predict", "log_expectations"])
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_bayesian_head_memory_is_a_few_chunks(sampling, method):
    """All draws at once would be several times 85 MiB."""
    head = bayesian(features=128, classes=1000, samples=50, sampling=sampling)
    features = torch.randn(448, 128)
    with PeakBytes() as memory:
        getattr(head, method)(features, generator(0, "x"))
    assert 16 < memory.peak / 2**20 < 96


@pytest.mark.filterwarnings("ignore:std_mean")
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_bayesian_head_predicts_empty_batches(sampling):
    prediction = bayesian(sampling=sampling).predict(torch.zeros(0, 6), generator(0, "x"))
    assert prediction.probs.shape == prediction.std.shape == (0, 4)


def test_bayesian_head_draws_depend_only_on_position():
    features = torch.randn(9, 6)
    head = bayesian()
    whole, some = (head.predict(rows, generator(0, "x")) for rows in (features, features[:4]))
    torch.testing.assert_close(whole.probs[:4], some.probs)


def test_bayesian_head_std_ignores_mixed_precision():
    features = torch.randn(9, 6)
    head = bayesian()
    plain = head.predict(features, generator(0, "x"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = head.predict(features, generator(0, "x"))
    assert torch.equal(plain.std, mixed.std)


def test_linear_head_probs_ignore_mixed_precision():
    torch.manual_seed(0)
    features, head = torch.randn(9, 6), LinearHead(6, 4)
    plain = head.predict(features, generator(0, "x"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = head.predict(features, generator(0, "x"))
    assert torch.equal(plain.probs, mixed.probs)


@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_log_expectations_equal_those_of_samples(sampling):
    head = bayesian(samples=9, sampling=sampling)
    features = torch.randn(5, 6)
    found, of_mean = head.log_expectations(features, generator(0, "x"))
    (parts,) = (list(parts) for parts in head._sampled_logits(features, generator(0, "x")))
    logits = torch.cat(parts, dim=1)
    torch.testing.assert_close(found, logits.softmax(-1).log().mean(1).detach())
    torch.testing.assert_close(of_mean, head.predict(features, generator(0, "x")).probs.log())
    assert (found <= of_mean + 1e-6).all()  # Jensen
    assert torch.isfinite(head.log_expectations(1000 * features, generator(0, "x"))[1]).all()


def test_bayesian_head_in_closed_form_draws_nothing():
    head = bayesian(sampling="closed-form")
    features = torch.randn(7, 6)
    with torch.no_grad():
        drawn = bayesian().predict(features, generator(0, "x"), temperature=0.7)
        whole = head.predict(features, None, temperature=0.7)
        rows = [head.predict(features[row : row + 1], None, temperature=0.7) for row in range(7)]
    torch.testing.assert_close(whole.probs, torch.cat([row.probs for row in rows]))
    torch.testing.assert_close(whole.std, torch.cat([row.std for row in rows]))
    torch.testing.assert_close(whole.probs, drawn.probs, rtol=0, atol=0.05)
