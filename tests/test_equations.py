import json
import math
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_squared_error

from surelabel import equations
from surelabel.utils.errors import UserError
from tests.fixtures import make_netcal

NETCAL = json.loads(make_netcal.FILE.read_text())["values"]
SCORES = ["ece", "mce", "classwise_ece", "equal_mass_ece", "aurc", "nll", "brier"]


@st.composite
def rational_predictions(draw, most=30):
    """Small whole-number weights [N][K] and labels [N]: full of ties, zeros, ones and confidences on bin edges."""
    classes = draw(st.integers(2, 4))
    row = st.lists(st.integers(0, 10), min_size=classes, max_size=classes).filter(any)
    weights = draw(st.lists(row, min_size=1, max_size=most))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=len(weights), max_size=len(weights)))
    return weights, labels


def tensors(weights, labels, dtype=torch.float64):
    weights = torch.tensor(weights, dtype=dtype)
    return weights / weights.sum(-1, keepdim=True), torch.tensor(labels)


def drawn(name):
    probs, labels = make_netcal.predictions(name)
    return torch.from_numpy(probs), torch.from_numpy(labels)


def exact_top(weights, labels):
    """Confidence and correctness of each sample, in fractions."""
    return [(Fraction(max(w), sum(w)), int(w.index(max(w)) == y)) for w, y in zip(weights, labels, strict=True)]


def exact_bin_gaps(pairs, bins=10):
    """(size, |mean confidence - mean correctness|) of the samples in each bin ((m-1)/M, m/M], in fractions."""
    gaps = []
    for m in range(bins):
        held = [
            p for p in pairs if (Fraction(m, bins) < p[0] or (m == 0 and p[0] == 0)) and p[0] <= Fraction(m + 1, bins)
        ]
        gaps.append((len(held), abs(sum(p[0] - p[1] for p in held)) / len(held) if held else Fraction(0)))
    return gaps


def exact_ece(pairs, bins=10):
    return sum(size * gap for size, gap in exact_bin_gaps(pairs, bins)) / len(pairs)


# Targets and losses


@pytest.mark.parametrize("t", [0.1, 0.4, 0.9, 1.0, 2.0])
def test_sharpen_is_the_direct_formula(t):
    probs, _ = drawn("calibrated")
    direct = probs.numpy() ** (1 / t)
    direct /= direct.sum(-1, keepdims=True)
    np.testing.assert_allclose(equations.sharpen(probs, t).numpy(), direct, rtol=1e-12)
    np.testing.assert_allclose(equations.sharpen(probs.float(), t).numpy(), direct, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("t", [1e-20, 1e-40, 1e-300])
def test_sharpen_tends_to_harden_without_a_nan(t):
    probs, _ = drawn("calibrated")
    assert torch.equal(equations.sharpen(probs.float(), t), equations.harden(probs.float()))


def test_sharpen_splits_ties_and_keeps_zeros():
    probs = torch.tensor([[0.4, 0.4, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0]])
    expected = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    assert torch.equal(equations.sharpen(probs, 1e-6), expected)
    assert torch.equal(equations.sharpen(probs, 50.0) == 0, probs == 0)
    uniform = torch.full((1, 1000), 1e-3)
    torch.testing.assert_close(equations.sharpen(uniform, 1e-300), uniform)


def test_sharpen_gradient_is_finite_at_zero():
    probs = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: equations.sharpen(p, 0.25), probs)
    saturated = torch.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
    equations.sharpen(saturated, 0.25).square().sum().backward()
    assert saturated.grad.isfinite().all()


@pytest.mark.parametrize("t", [0.0, -1.0, float("nan")])
def test_sharpen_rejects_temperatures_not_above_zero(t):
    with pytest.raises(UserError, match="above 0"):
        equations.sharpen(torch.tensor([[0.5, 0.5]]), t)


def test_harden_is_one_hot_for_any_leading_shape():
    probs = drawn("calibrated")[0].reshape(20, 100, 10)
    assert np.array_equal(equations.harden(probs).numpy(), np.eye(10)[probs.numpy().argmax(-1)])


def logits_and_targets(rows=12, classes=5):
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    return logits, torch.rand(rows, classes, dtype=torch.float64, generator=generator).log().softmax(-1)


def test_cross_entropy_equals_a_plain_sum_and_torch():
    logits, target = logits_and_targets()
    q = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(1, keepdims=True)
    plain = [-sum(p[k] * np.log(row[k]) for k in range(5)) for p, row in zip(target.numpy(), q, strict=True)]
    np.testing.assert_allclose(equations.cross_entropy(logits, target), plain, rtol=1e-12)
    torch.testing.assert_close(
        equations.cross_entropy(logits, target), F.cross_entropy(logits, target, reduction="none")
    )


def test_cross_entropy_stays_finite_at_extreme_logits():
    logits = torch.tensor([[1000.0, -1000.0]])
    assert equations.cross_entropy(logits, torch.tensor([[0.0, 1.0]])).item() == 2000


def test_labelled_cross_entropy_is_that_of_one_hot_targets():
    logits, _ = logits_and_targets()
    labels = torch.arange(12) % 5
    loss = equations.labelled_cross_entropy(logits, labels)
    torch.testing.assert_close(loss, equations.cross_entropy(logits, torch.eye(5, dtype=torch.float64)[labels]).mean())


def test_masked_cross_entropy_divides_by_the_whole_batch():
    logits, target = logits_and_targets()
    mask = torch.arange(12) < 3
    loss = equations.masked_cross_entropy(logits, target, mask)
    torch.testing.assert_close(loss, F.cross_entropy(logits[:3], target[:3], reduction="sum") / 12)
    assert equations.masked_cross_entropy(logits, target, torch.zeros(12, dtype=torch.bool)) == 0


def test_masked_cross_entropy_gradient_reaches_accepted_only():
    logits, target = logits_and_targets()
    logits.requires_grad_()
    target.requires_grad_()
    mask = torch.arange(12) < 3
    assert torch.autograd.gradcheck(lambda x: equations.masked_cross_entropy(x, target, mask), logits)
    equations.masked_cross_entropy(logits, target, mask).backward()
    mine, logits.grad = logits.grad, None
    (F.cross_entropy(logits[:3], target[:3].detach()) * 3 / 12).backward()
    torch.testing.assert_close(mine, logits.grad)
    assert target.grad is None
    assert not mine[3:].any()


# Calibration


@pytest.mark.parametrize(
    ("name", "bins", "score"),
    [(name, bins, score) for name, by_bins in NETCAL.items() for bins, scores in by_bins.items() for score in scores],
)
def test_calibration_errors_equal_netcal(name, bins, score):
    value = getattr(equations, score)(*drawn(name), int(bins)).item()
    assert value == pytest.approx(NETCAL[name][bins][score], abs=1e-12)


def test_ece_puts_confidence_one_in_the_last_bin():
    # 0.09 is what a bin of its own for 1.0 would give.
    probs, labels = drawn("saturated")
    assert equations.ece(probs, labels).item() == pytest.approx(0.01, abs=1e-12)
    assert equations.ece(probs.float(), labels).item() == pytest.approx(0.01, abs=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bin_of_is_open_below_and_closed_above(dtype):
    confidence = torch.tensor([0.0, 0.1, 0.3, 0.6, 0.7, 0.9, 1.0], dtype=dtype)
    assert equations.bin_of(confidence, 10).tolist() == [0, 0, 2, 5, 6, 8, 9]
    above = torch.nextafter(confidence[:-1], torch.ones((), dtype=dtype))
    assert equations.bin_of(above, 10).tolist() == [0, 1, 3, 6, 7, 9]


@given(rational_predictions())
def test_ece_and_mce_equal_exact_fractions(case):
    pairs = exact_top(*case)
    for dtype, tolerance in [(torch.float64, 1e-12), (torch.float32, 1e-6)]:
        probs, labels = tensors(*case, dtype=dtype)
        assert equations.ece(probs, labels).item() == pytest.approx(float(exact_ece(pairs)), abs=tolerance)
        mce = max(gap for _, gap in exact_bin_gaps(pairs))
        assert equations.mce(probs, labels).item() == pytest.approx(float(mce), abs=tolerance)


@given(rational_predictions())
def test_classwise_ece_equals_exact_fractions(case):
    weights, labels = case
    classes = range(len(weights[0]))
    exact = [
        exact_ece([(Fraction(w[k], sum(w)), int(y == k)) for w, y in zip(weights, labels, strict=True)])
        for k in classes
    ]
    value = equations.classwise_ece(*tensors(weights, labels)).item()
    assert value == pytest.approx(float(sum(exact) / len(classes)), abs=1e-12)


@given(rational_predictions(), st.integers(1, 12))
def test_equal_mass_ece_shares_ties_evenly(case, bins):
    pairs = sorted(exact_top(*case), key=lambda pair: -pair[0])
    ties = {c: [right for other, right in pairs if other == c] for c, _ in pairs}
    gaps = [c - Fraction(sum(ties[c]), len(ties[c])) for c, _ in pairs]
    groups = [[gap for i, gap in enumerate(gaps) if i * bins // len(gaps) == m] for m in range(bins)]
    exact = sum(abs(sum(group)) for group in groups) / len(gaps)
    assert equations.equal_mass_ece(*tensors(*case), bins).item() == pytest.approx(float(exact), abs=1e-12)


@given(rational_predictions(most=6))
def test_aurc_is_the_mean_over_orders_of_ties(case):
    pairs = exact_top(*case)
    areas = []
    for order in permutations(pairs):
        if all(first[0] >= second[0] for first, second in pairwise(order)):
            risks = [Fraction(sum(1 - right for _, right in order[:n]), n) for n in range(1, len(order) + 1)]
            areas.append(sum(risks) / len(risks))
    assert equations.aurc(*tensors(*case)).item() == pytest.approx(float(sum(areas) / len(areas)), abs=1e-12)


@pytest.mark.parametrize("order", [slice(None), torch.arange(99, -1, -1)], ids=["wrong first", "wrong last"])
def test_equal_mass_ece_and_aurc_of_saturated_ties(order):
    probs, labels = (part[order] for part in drawn("saturated"))
    assert equations.equal_mass_ece(probs, labels).item() == pytest.approx((0.1 + 0.08) / 2)
    area = (50 * 0.1 + sum(5 / n for n in range(51, 101))) / 100
    assert equations.aurc(probs, labels).item() == pytest.approx(area)


@pytest.mark.parametrize("samples", [640, 1000])
def test_ece_of_batches_is_a_weighted_mean(samples):
    probs, labels = (part[:samples] for part in drawn("overconfident"))
    batches = [slice(start, min(start + 64, samples)) for start in range(0, samples, 64)]
    plain = sum((b.stop - b.start) * equations.ece(probs[b], labels[b]).item() for b in batches) / samples
    assert equations.ece_of_batches(probs, labels).item() == pytest.approx(plain, abs=1e-12)


def test_ece_of_batches_is_biased_for_a_calibrated_model():
    probs, labels = drawn("calibrated")
    assert equations.ece(probs, labels) < 0.02
    assert equations.ece_of_batches(probs, labels) > 0.08


@pytest.mark.parametrize("name", NETCAL)
def test_nll_and_brier_equal_scikit_learn(name):
    probs, labels = drawn(name)
    classes = probs.shape[1]
    nll = log_loss(labels.numpy(), probs.numpy(), labels=range(classes))
    assert equations.nll(probs, labels).item() == pytest.approx(nll, rel=1e-12)
    brier = classes * mean_squared_error(np.eye(classes)[labels], probs.numpy())
    assert equations.brier(probs, labels).item() == pytest.approx(brier, rel=1e-12)


def test_nll_floors_a_zero_probability():
    probs = torch.tensor([[1.0, 0.0]])
    assert equations.nll(probs, torch.tensor([1])).item() == pytest.approx(36.0437, abs=1e-4)


@pytest.mark.parametrize("score", SCORES)
def test_metrics_do_not_change_their_arguments(score):
    probs, labels = drawn("saturated")
    before = probs.clone(), labels.clone()
    getattr(equations, score)(probs, labels)
    assert torch.equal(probs, before[0])
    assert torch.equal(labels, before[1])


@given(rational_predictions(), st.randoms())
def test_metrics_ignore_sample_order_and_stay_in_range(case, random):
    probs, labels = tensors(*case)
    order = list(range(len(labels)))
    random.shuffle(order)
    for score in SCORES:
        value = getattr(equations, score)(probs, labels).item()
        assert value == pytest.approx(getattr(equations, score)(probs[order], labels[order]).item(), abs=1e-12)
        assert 0 <= value <= {"nll": 36.05, "brier": 2}.get(score, 1) + 1e-12


def test_smooth_labels_spreads_over_occurring_classes():
    smooth = equations.smooth_labels(torch.tensor([0, 2, 2]), 4, 0.1)
    expected = [[0.95, 0, 0.05, 0], [0.05, 0, 0.95, 0], [0.05, 0, 0.95, 0]]
    torch.testing.assert_close(smooth, torch.tensor(expected, dtype=torch.float64))


@given(st.integers(0, 2**31), st.floats(0.03, 1.0))
def test_soft_nearest_neighbours_equals_a_plain_loop(seed, temperature):
    torch.manual_seed(seed)
    z, support = torch.randn(3, 5, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    labels = torch.rand(6, 4, dtype=torch.float64)
    labels /= labels.sum(1, keepdim=True)
    probs = equations.soft_nearest_neighbours(z, support, labels, temperature)
    for n in range(3):
        weights = [math.exp(float(z[n] @ s / z[n].norm() / s.norm()) / temperature) for s in support]
        expected = sum(w * y for w, y in zip(weights, labels, strict=True)) / sum(weights)
        torch.testing.assert_close(probs[n], expected)
    torch.testing.assert_close(probs.sum(1), torch.ones(3, dtype=torch.float64))


def test_soft_cross_entropy_equals_torch_and_allows_zeros():
    logits = torch.randn(5, 4, dtype=torch.float64)
    target = torch.rand(5, 4, dtype=torch.float64).softmax(-1)
    found = equations.soft_cross_entropy(logits.softmax(-1), target)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits, target, reduction="none"))
    probs = torch.tensor([[0.25, 0.75, 0.0]], requires_grad=True)
    loss = equations.soft_cross_entropy(probs, torch.tensor([[0.5, 0.5, 0.0]])).sum()
    loss.backward()
    assert loss.item() == pytest.approx(-0.5 * math.log(0.25) - 0.5 * math.log(0.75))
    assert torch.isfinite(probs.grad).all()


def test_entropy_equals_torch_distributions():
    probs = torch.rand(7, 4, dtype=torch.float64).softmax(-1)
    expected = torch.distributions.Categorical(probs.mean(0)).entropy()
    torch.testing.assert_close(equations.entropy(probs.mean(0)), expected)
    assert equations.entropy(torch.full((4,), 0.25)).item() == pytest.approx(math.log(4))
    assert equations.entropy(torch.eye(4)[0]).item() == 0
