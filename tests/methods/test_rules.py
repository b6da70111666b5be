"""The rules of the recent methods against plain loops over samples, for 200 random steps each."""

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.config.run import Align as AlignSettings
from surelabel.config.run import RunConfig, Selection
from surelabel.methods.adamatch import Relative
from surelabel.methods.base import Pool, PoolPrediction
from surelabel.methods.dash import FallingLoss
from surelabel.methods.debiaspl import AdaptiveMargin, Debias
from surelabel.methods.finessl_margin import BalancedMargin, ByConfidence
from surelabel.methods.flexmatch import Curriculum
from surelabel.methods.freematch import Fair, SelfAdaptive
from surelabel.methods.mean_teacher import RampUp, SquaredError
from surelabel.methods.selection import Confidence, Uncertainty
from surelabel.methods.softmatch import TruncatedGaussian
from surelabel.models.heads import Bayesian
from surelabel.training import build
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError

CLASSES, SAMPLES, BATCH, STEPS = 4, 60, 16, 200
POOL = Pool(SAMPLES, torch.tensor([3, 1, 2, 2]))


def stream(sharpness=3.0):
    """Predictions that become more confident, for samples of the pool, some of which are in a batch twice."""
    draws = np.random.default_rng(0)
    for step in range(STEPS):
        logits = draws.normal(size=(2 * BATCH, CLASSES)) * (1 + sharpness * step / STEPS) + [0.8, 0, 0, -0.8]
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        positions = draws.integers(0, SAMPLES, BATCH)
        labels = draws.integers(0, CLASSES, BATCH)
        weak, known, where, truth = map(torch.from_numpy, (probs[:BATCH], probs[BATCH:], positions, labels))
        yield PoolPrediction(weak, None, where, known, truth)


def run(rule):
    """The rows and what the rule makes of them, step by step, with the state before and after."""
    state = rule.init(POOL)
    for step, prediction in enumerate(stream()):
        found, after = rule(prediction, state, step)
        yield step, prediction, prediction.probs.tolist(), found.tolist(), state, after
        state = state | after


def top(row):
    return max(row), row.index(max(row))


def ema(old, new, decay):
    return decay * old + (1 - decay) * new


def note(last, prediction, rows, threshold):
    """Of a sample that is in the batch twice, the larger class counts."""
    latest = {}
    for position, row in zip(prediction.positions.tolist(), rows, strict=True):
        if max(row) >= threshold:
            latest[position] = max(latest.get(position, -1), top(row)[1])
    last.update(latest)


def test_flexmatch_rule_equals_a_plain_loop():
    last, kinds = dict.fromkeys(range(SAMPLES), -1), set()
    for _, prediction, rows, accepted, _, after in run(Curriculum(0.8)):
        counts = [sum(held == k for held in last.values()) for k in range(-1, CLASSES)]
        for row, mine in zip(rows, accepted, strict=True):
            confidence, k = top(row)
            beta = counts[1 + k] / max(counts)
            assert mine == (confidence >= 0.8 * beta / (2 - beta))
        note(last, prediction, rows, 0.8)
        assert after["last_class"].tolist() == list(last.values())
        assert after["counts"].tolist() == [sum(held == k for held in last.values()) for k in range(-1, CLASSES)]
        kinds |= set(accepted)
    assert kinds == {True, False}


def test_finessl_rule_equals_a_plain_loop():
    last = dict.fromkeys(range(SAMPLES), -1)
    for _, prediction, rows, weights, _, after in run(ByConfidence(0.7)):
        counts = [sum(held == k for held in last.values()) for k in range(CLASSES)]
        assert after["learnt"].tolist() == pytest.approx([count / max(*counts, 1) for count in counts])
        assert weights == [max(row) for row in rows]
        note(last, prediction, rows, 0.7)
        assert after["last_class"].tolist() == list(last.values())
        assert after["counts"].tolist() == [sum(held == k for held in last.values()) for k in range(-1, CLASSES)]


def test_freematch_rule_equals_a_plain_loop():
    threshold, mean, shares, kinds = 1 / CLASSES, [1 / CLASSES] * CLASSES, [1 / CLASSES] * CLASSES, set()
    for _, _, rows, accepted, _, after in run(SelfAdaptive(0.95)):
        threshold = ema(threshold, fmean(map(max, rows)), 0.95)
        mean = [ema(old, fmean(row[k] for row in rows), 0.95) for k, old in enumerate(mean)]
        shares = [ema(old, fmean(top(row)[1] == k for row in rows), 0.95) for k, old in enumerate(shares)]
        for row, mine in zip(rows, accepted, strict=True):
            confidence, k = top(row)
            assert mine == (confidence >= threshold * mean[k] / max(mean))
        assert after["threshold"].item() == pytest.approx(threshold, rel=1e-6)
        assert after["shares"].tolist() == pytest.approx(shares, rel=1e-6)
        kinds |= set(accepted)
    assert kinds == {True, False}


def test_softmatch_rule_equals_a_plain_loop():
    mean, variance = 1 / CLASSES, 1.0
    for _, _, rows, weights, _, _ in run(TruncatedGaussian(0.9, width=2)):
        tops = [max(row) for row in rows]
        centre = fmean(tops)
        mean = ema(mean, centre, 0.9)
        variance = ema(variance, sum((p - centre) ** 2 for p in tops) / (len(tops) - 1), 0.9)
        expected = [1.0 if p > mean else math.exp(-((p - mean) ** 2) * 4 / (2 * variance)) for p in tops]
        assert weights == pytest.approx(expected, rel=1e-5)
    assert min(weights) < 0.5 < max(weights) == 1


def test_adamatch_rule_equals_a_plain_loop():
    for _, prediction, rows, accepted, _, _ in run(Relative(0.9)):
        threshold = 0.9 * fmean(map(max, prediction.labelled.tolist()))
        assert accepted == [max(row) >= threshold for row in rows]


@pytest.mark.parametrize("warmup", [0, 30])
def test_dash_rule_equals_a_plain_loop(warmup):
    loss, rule, kinds = math.log(CLASSES), FallingLoss(every=20, warmup=warmup), set()
    for step, prediction, rows, accepted, _, _ in run(rule):
        if step <= warmup:
            known = prediction.labelled.tolist()
            latest = -fmean(math.log(row[k]) for row, k in zip(known, prediction.labels.tolist(), strict=True))
            loss = ema(loss, latest, 0.9) if warmup else latest
        threshold = max(1.0001 * 1.27 ** -((step - warmup) // 20) * loss, 0.05)
        assert accepted == [step >= warmup and -math.log(max(row)) <= threshold for row in rows]
        kinds |= set(accepted)
    assert kinds == {True, False}


def test_ramp_rises_to_one():
    for step, _, _, weights, _, _ in run(RampUp(50)):
        left = 1 - min(step, 50) / 50
        assert weights == pytest.approx([math.exp(-5 * left * left)] * BATCH)
    assert RampUp(0)(next(stream()), {}, 0)[0].tolist() == [1] * BATCH


def test_debiaspl_alignment_equals_a_plain_loop():
    rule, mean = Debias(decay=0.9, strength=0.4), [1 / CLASSES] * CLASSES
    state = rule.init(POOL)
    for step, prediction in enumerate(stream()):
        aligned, state = rule(prediction, state, step)
        rows = prediction.probs.tolist()
        for row, found in zip(rows, aligned.probs.tolist(), strict=True):
            scaled = [p / m**0.4 for p, m in zip(row, mean, strict=True)]
            assert found == pytest.approx([value / sum(scaled) for value in scaled], rel=1e-5)
        mean = [ema(old, fmean(row[k] for row in rows), 0.9) for k, old in enumerate(mean)]
        assert state["align.mean"].tolist() == pytest.approx(mean, rel=1e-6)


def losses_of(seed):
    """Logits, hard targets and weights of a random step."""
    made = torch.Generator().manual_seed(seed)
    logits = torch.randn(BATCH, CLASSES, generator=made, dtype=torch.float64) * 3
    labels = torch.randint(CLASSES, (BATCH,), generator=made)
    weights = torch.rand(BATCH, generator=made, dtype=torch.float64).round(decimals=1) * (torch.arange(BATCH) % 3 > 0)
    return logits.requires_grad_(), labels, weights, torch.rand(CLASSES, generator=made).add(0.1)


def log_softmax(row):
    return [value - math.log(sum(map(math.exp, row))) for value in row]


def test_debiaspl_loss_equals_a_plain_loop():
    for seed in range(STEPS):
        logits, labels, weights, mean = losses_of(seed)
        mean = mean / mean.sum()
        found = AdaptiveMargin(0.4).unlabelled(logits, torch.eye(CLASSES)[labels], weights, {"align.mean": mean})
        expected = 0.0
        for row, label, weight in zip(logits.tolist(), labels.tolist(), weights.tolist(), strict=True):
            shifted = [z + 0.4 * math.log(m) for z, m in zip(row, mean.tolist(), strict=True)]
            expected -= weight * log_softmax(shifted)[label] / BATCH
        assert found.item() == pytest.approx(expected, rel=1e-6)


def test_finessl_loss_equals_a_plain_loop():
    for seed in range(STEPS):
        logits, labels, weights, learnt = losses_of(seed)
        state, criterion = {"learnt": learnt / learnt.max()}, BalancedMargin(8.0)
        beta = state["learnt"].tolist()
        expected, rows = 0.0, []
        for row, label, weight in zip(logits.tolist(), labels.tolist(), weights.tolist(), strict=True):
            margin = 8 * (1 - beta[label]) / (1 + beta[label]) * (max(beta) - min(beta))
            rows.append([z + margin * (k != label) for k, z in enumerate(row)])
            expected -= weight * log_softmax(rows[-1])[label] / BATCH
        found = criterion.unlabelled(logits, torch.eye(CLASSES)[labels], weights, state)
        assert found.item() == pytest.approx(expected, rel=1e-6)
        assert criterion.labelled(logits, labels, state).tolist() == [pytest.approx(row, abs=1e-5) for row in rows]


def test_freematch_fairness_equals_a_plain_loop():
    def per_share(probs, shares):
        scaled = [p / share if share else 0.0 for p, share in zip(probs, shares, strict=True)]
        return [value / sum(scaled) for value in scaled]

    for seed in range(STEPS):
        logits, _, weights, mean = losses_of(seed)
        state = {"mean": mean / mean.sum(), "shares": mean.flip(0) / mean.sum()}
        ((name, (weight, found)),) = Fair(0.01).further(logits, weights, state, World()).items()
        rows = [
            [math.exp(value) for value in log_softmax(row)]
            for row, accepted in zip(logits.tolist(), weights.tolist(), strict=True)
            if accepted
        ]
        now = per_share(
            [fmean(row[k] for row in rows) for k in range(CLASSES)],
            [fmean(top(row)[1] == k for row in rows) for k in range(CLASSES)],
        )
        usual = per_share(state["mean"].tolist(), state["shares"].tolist())
        expected = sum(a * math.log(b + 1e-12) for a, b in zip(usual, now, strict=True))
        assert (name, weight) == ("fairness", 0.01)
        assert found.item() == pytest.approx(expected, rel=1e-5)


def test_freematch_fairness_of_nothing_accepted_has_no_gradient():
    logits, _, weights, mean = losses_of(0)
    _, term = Fair().further(logits, 0 * weights, {"mean": mean, "shares": mean}, World())["fairness"]
    term.backward()
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_mean_teacher_loss_equals_a_plain_loop():
    for seed in range(STEPS):
        logits, _, weights, _ = losses_of(seed)
        target = logits.detach().roll(1, 0).softmax(-1)
        found = SquaredError().unlabelled(logits, target, weights, {})
        expected = 0.0
        for row, asked, weight in zip(logits.tolist(), target.tolist(), weights.tolist(), strict=True):
            probs = [math.exp(value) for value in log_softmax(row)]
            expected += weight * fmean((p - q) ** 2 for p, q in zip(probs, asked, strict=True)) / BATCH
        assert found.item() == pytest.approx(expected, rel=1e-6)


NAMES = ("remixmatch-align", "flexmatch", "adamatch", "debiaspl", "softmatch", "freematch", "finessl-margin", "dash")


@pytest.mark.parametrize("name", [*NAMES, "pi-model", "mean-teacher"])
def test_bayesian_variant_keeps_the_rule(name):
    """bam-flexmatch is not bam-fixmatch."""
    plain, made = find(name), find(f"bam-{name}")
    assert (plain.head, made.head) == (None, Bayesian())
    assert replace(made, head=None) == plain
    assert not isinstance(made.select, Uncertainty)


def test_methods_have_the_published_constants():
    published = {
        "flexmatch": Curriculum(0.95), "adamatch": Relative(0.9), "debiaspl": Confidence(0.95),
        "softmatch": TruncatedGaussian(0.999, 2), "freematch": SelfAdaptive(0.999), "finessl-margin": ByConfidence(0.7),
    }  # fmt: skip
    for name, rule in published.items():
        assert build.build_method(RunConfig(method=name)).select == rule
    assert find("debiaspl").align.strength == find("debiaspl").criterion.strength == 0.4
    assert (find("mean-teacher").weight, find("pi-model").weight) == (50, 10)
    assert RunConfig(method="mean-teacher").teaches == RunConfig(method="bam-mean-teacher+ema").teaches == "ema"
    assert RunConfig(method="mean-teacher+swa").teaches == "swa"
    assert RunConfig(method="pi-model").teaches is None


def test_settings_reach_the_rules():
    config = RunConfig(selection=Selection(threshold=0.6, decay=0.5, warmup=0.25), steps=2048)
    made = {name: build.build_method(replace(config, method=name)).select for name in (*NAMES, "pi-model")}
    assert made["flexmatch"] == Curriculum(0.6)
    assert made["adamatch"] == Relative(0.6)
    assert made["softmatch"] == TruncatedGaussian(0.5)
    assert made["freematch"] == SelfAdaptive(0.5)
    assert (made["dash"].warmup, made["dash"].every, made["pi-model"].warmup) == (512, 18, 512)
    filled = build.resolve(replace(config, method="freematch")).selection
    assert (filled.threshold, filled.decay) == (None, 0.5)


def test_parts_that_do_not_go_together_are_refused(tiny):
    with pytest.raises(UserError, match=r"align\.rule mean does not go with DebiasPL"):
        build.build_method(replace(tiny, method="debiaspl", align=AlignSettings("mean")))
    with pytest.raises(UserError, match="needs a Bayesian head"):
        replace(find("fixmatch"), select=Uncertainty(0.9)).configured(tiny)
    with pytest.raises(UserError, match=r"criterion Fair reads mean, shares, which neither NoAlignment nor Confidence"):
        replace(find("fixmatch"), criterion=Fair()).configured(tiny)
    with pytest.raises(UserError, match=r"criterion AdaptiveMargin reads align\.mean"):
        replace(find("flexmatch"), criterion=AdaptiveMargin()).configured(tiny)
