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


def test_a_point_head_predicts_its_own_softmax_without_gradients_and_without_a_deviation():
    head = LinearHead(7, 3)
    features = torch.randn(5, 7)
    prediction = head.predict(features, generator(0, "x"))
    expected = torch.softmax(features @ head.weight.T + head.bias, dim=1)
    torch.testing.assert_close(prediction.probs, expected.detach())
    assert not prediction.probs.requires_grad
    assert prediction.std is None
    assert head.kl() is None


@pytest.mark.parametrize("prior", [1.0, 0.3])
def test_kl_is_that_of_torchs_distributions_and_its_gradient_is_right(prior):
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


def test_a_pass_is_one_reparametrised_draw_whose_gradient_reaches_means_and_deviations():
    head = bayesian()
    features = torch.randn(3, 6)
    noise = head.noise(generator(0, "x"))
    weight = head.weight_mean + (1 + head.weight_rho.exp()).log() * noise[:, :-1]
    bias = head.bias_mean + (1 + head.bias_rho.exp()).log() * noise[:, -1]
    logits = head(features, noise)
    torch.testing.assert_close(logits, features @ weight.T + bias)
    logits.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())


def test_drawing_logits_and_drawing_weights_give_each_sample_the_same_distribution():
    """Two-sample Kolmogorov-Smirnov tests of q̂ and σ at the likeliest class, for 5 samples.

    A right implementation fails one seed in a hundred: 10 tests at 0.001 each.
    """
    features = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    found = {}
    for sampling in ("logits", "weights"):
        head = bayesian(samples=50, sampling=sampling)
        likeliest = F.linear(features, head.weight_mean, head.bias_mean).argmax(-1, keepdim=True)
        draws = generator(0, sampling)
        runs = [head.predict(features, draws) for _ in range(400)]
        found[sampling] = [
            torch.stack([moment(run).gather(-1, likeliest).squeeze(-1) for run in runs]).numpy()
            for moment in (lambda run: run.probs, lambda run: run.std)
        ]
    for mine, theirs in zip(found["logits"], found["weights"], strict=True):
        for sample in range(5):
            assert stats.ks_2samp(mine[:, sample], theirs[:, sample]).pvalue > 1e-3


def test_the_mean_of_two_classes_is_that_of_numerical_integration():
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


def test_deviations_vanish_with_sigma_and_the_mean_becomes_the_point_prediction():
    features = torch.randn(4, 6)
    head = bayesian(spread=-30.0)
    prediction = head.predict(features, generator(0, "x"))
    assert prediction.std.max() < 1e-6
    point = F.linear(features, head.weight_mean, head.bias_mean).softmax(-1)
    torch.testing.assert_close(prediction.probs, point.detach())


@pytest.mark.parametrize("chunk", [1, 5 * 4 * 3, heads.CHUNK])
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_moments_are_those_of_a_plain_loop_at_once_and_in_parts(sampling, chunk, monkeypatch):
    monkeypatch.setattr(heads, "CHUNK", chunk)
    head = bayesian(samples=7, sampling=sampling)
    features = torch.randn(5, 6)
    draws = generator(0, "x")
    if sampling == "weights":
        logits = np.stack([head(features, head.noise(draws)).detach().numpy() for _ in range(7)], 1)
    else:
        with torch.no_grad():
            mean = F.linear(features, head.weight_mean, head.bias_mean).numpy()
            variance = F.linear(features**2, F.softplus(head.weight_rho) ** 2, F.softplus(head.bias_rho) ** 2).numpy()
        noise = draws.standard_normal((5, 7, 4), dtype=np.float32)
        logits = mean[:, None] + np.sqrt(variance)[:, None] * noise
    powers = np.exp(logits.astype(np.float64) / 0.5)
    probs = powers / powers.sum(-1, keepdims=True)
    prediction = head.predict(features, generator(0, "x"), temperature=0.5)
    np.testing.assert_allclose(prediction.probs, probs.mean(1), atol=1e-6)
    np.testing.assert_allclose(prediction.std, probs.std(1), atol=1e-6)


def test_many_classes_are_worked_off_in_chunks_that_change_nothing(monkeypatch):
    features = torch.randn(48, 6)
    head = bayesian(classes=1000)
    whole = head.predict(features, generator(0, "x"))
    seen = []
    normals = BayesianHead.normals
    monkeypatch.setattr(
        BayesianHead,
        "normals",
        lambda self, draws, *shape: seen.append(np.prod(shape)) or normals(self, draws, *shape),
    )
    monkeypatch.setattr(heads, "CHUNK", 10 * 50 * 1000)
    parts = head.predict(features, generator(0, "x"))
    assert len(seen) == 5
    assert max(seen) <= 10 * 50 * 1000
    assert torch.equal(whole.probs, parts.probs)
    assert torch.equal(whole.std, parts.std)


def test_parts_of_draws_make_the_deviation_of_the_whole_where_it_is_small_beside_the_mean():
    """Deviations of 1e-5 beside a mean near 1, whose squares alone would differ by less than float32 can hold."""
    whole = 1 - 1e-5 * torch.rand(3, 50, 4, generator=torch.Generator().manual_seed(3))
    for size in (1, 9, 50):
        mean, deviation = heads._mean_and_std(whole.split(size, dim=1))
        np.testing.assert_allclose(mean, whole.double().mean(1), rtol=2e-7)
        np.testing.assert_allclose(deviation, whole.double().std(1, correction=0), rtol=0.01)


class PeakBytes(TorchDispatchMode):
    """The most bytes that the tensors seen, also those that numpy made, have held at a time."""

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


@pytest.mark.parametrize("method", ["predict", "log_expectations"])
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_a_thousand_classes_take_the_memory_of_a_few_chunks(sampling, method):
    """All draws at once are 85 MiB, several times over; a UDA step of WRN-28-2 with these 448 takes 1.9 GiB."""
    head = bayesian(features=128, classes=1000, samples=50, sampling=sampling)
    features = torch.randn(448, 128)
    with PeakBytes() as memory:
        getattr(head, method)(features, generator(0, "x"))
    assert 16 < memory.peak / 2**20 < 96


@pytest.mark.filterwarnings("ignore:std_mean")
@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_nothing_is_predicted_of_no_samples(sampling):
    prediction = bayesian(sampling=sampling).predict(torch.zeros(0, 6), generator(0, "x"))
    assert prediction.probs.shape == prediction.std.shape == (0, 4)


def test_a_samples_draws_depend_on_its_position_alone():
    features = torch.randn(9, 6)
    head = bayesian()
    whole, some = (head.predict(rows, generator(0, "x")) for rows in (features, features[:4]))
    torch.testing.assert_close(whole.probs[:4], some.probs)


def test_mixed_precision_does_not_reach_the_deviations():
    features = torch.randn(9, 6)
    head = bayesian()
    plain = head.predict(features, generator(0, "x"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = head.predict(features, generator(0, "x"))
    assert torch.equal(plain.std, mixed.std)


def test_mixed_precision_does_not_reach_the_probabilities_of_a_point_head():
    torch.manual_seed(0)
    features, head = torch.randn(9, 6), LinearHead(6, 4)
    plain = head.predict(features, generator(0, "x"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = head.predict(features, generator(0, "x"))
    assert torch.equal(plain.probs, mixed.probs)


@pytest.mark.parametrize("sampling", ["logits", "weights"])
def test_log_expectations_are_those_of_the_sampled_probabilities(sampling):
    head = bayesian(samples=9, sampling=sampling)
    features = torch.randn(5, 6)
    found, of_mean = head.log_expectations(features, generator(0, "x"))
    (parts,) = (list(parts) for parts in head._sampled_logits(features, generator(0, "x")))
    logits = torch.cat(parts, dim=1)
    torch.testing.assert_close(found, logits.softmax(-1).log().mean(1).detach())
    torch.testing.assert_close(of_mean, head.predict(features, generator(0, "x")).probs.log())
    assert (found <= of_mean + 1e-6).all()  # Jensen
    assert torch.isfinite(head.log_expectations(1000 * features, generator(0, "x"))[1]).all()
