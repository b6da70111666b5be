import sys
from fractions import Fraction
from importlib import reload
from math import ceil

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.stats import betabinom

pytest.importorskip("mapie", reason="the extra `calibration` is not installed")

from surelabel.inference import calibration
from surelabel.inference.calibration import (
    check_enough,
    check_meaningful,
    cross_fitted,
    fit_calibration,
    labels_needed,
    metrics_of,
)
from surelabel.utils.errors import UserError

NAMES = [str(number) for number in range(6)]


def samples(count, seed, temperature=2.5, classes=6):
    """Overconfident probabilities of a known temperature, and labels."""
    draws = np.random.default_rng(seed)
    logits = draws.normal(size=(count, classes)) * 1.5
    right = np.exp(log_softmax(logits, axis=1))
    labels = (draws.random((count, 1)) > right.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    return torch.from_numpy(logits * temperature).softmax(-1).float(), torch.from_numpy(labels)


@pytest.mark.parametrize("count", [30, 400])
@pytest.mark.parametrize("classes", [2, 6])
def test_fit_calibration_temperature_minimises_the_nll(count, classes):
    probs, labels = samples(count, 1, classes=classes)
    log_p = probs.double().log().numpy()

    def nll(log_temperature):
        return -log_softmax(log_p / np.exp(log_temperature), axis=1)[np.arange(count), labels].mean()

    expected = np.exp(minimize_scalar(nll, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9}).x)
    fitted = fit_calibration(probs, labels, 0.8)
    assert fitted.temperature == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(
        fitted.probs(probs).numpy(), np.exp(log_softmax(log_p / expected, axis=1)), rtol=1e-3, atol=1e-7
    )


def test_fit_calibration_recovers_the_temperature_and_keeps_the_classes():
    probs, labels = samples(20_000, 2)
    fitted = fit_calibration(probs, labels, 0.9)
    assert fitted.temperature == pytest.approx(2.5, rel=0.05)
    assert torch.equal(fitted.probs(probs).argmax(1), probs.argmax(1))


def test_calibration_sets_match_a_plain_loop():
    probs, labels = samples(57, 3)
    new, _ = samples(200, 4)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        member = fit_calibration(probs, labels, coverage).sets(new)
        scores = sorted(
            1 - float(row[label]) / float(row.double().sum()) for row, label in zip(probs.double(), labels, strict=True)
        )
        quantile = scores[ceil(Fraction(str(coverage)) * (len(scores) + 1)) - 1]
        for row, given in zip(new.double(), member, strict=True):
            share = (row / row.sum()).tolist()
            expected = [1 - p <= quantile + 1e-9 or p == max(share) for p in share]
            assert given.tolist() == expected


def test_calibration_sets_grow_with_coverage_and_are_never_empty():
    probs, labels = samples(300, 5)
    few, many = (fit_calibration(probs, labels, coverage).sets(probs) for coverage in (0.5, 0.95))
    assert few[torch.arange(300), probs.argmax(1)].all()
    assert (many | ~few).all()


def test_calibration_sets_cover_new_samples_as_often_as_asked():
    """With n = 99 held-out labels, the number covered of m exchangeable new samples is beta-binomial(m, 90, 10),
    whatever the probabilities are. So 40 repetitions with m = 500 have a mean coverage with a std of 0.0051; 4 stds are
    exceeded by chance 6 times in 100,000. Adding the most likely class can only cover more.
    """
    law = betabinom(500, 90, 10)
    conformal, final = np.empty(40), np.empty(40)
    for seed in range(40):
        probs, labels = samples(599, 100 + seed)
        fitted = fit_calibration(probs[:99], labels[:99], 0.9)
        _, member = fitted.conformal.predict_set(probs[99:].double().numpy())
        conformal[seed] = member[np.arange(500), labels[99:], 0].mean()
        final[seed] = float(fitted.sets(probs[99:])[torch.arange(500), labels[99:]].double().mean())
    assert abs(conformal.mean() - law.mean() / 500) < 4 * law.std() / 500 / 40**0.5
    assert (final >= conformal).all()


def test_cross_fitted_improves_the_metrics():
    probs, labels = samples(500, 7)
    found = cross_fitted(probs, labels, 0.9, NAMES)
    assert found.samples == 500
    assert found.nll_after < found.nll_before
    assert found.ece_after < found.ece_before
    assert found.accuracy == pytest.approx(float((probs.argmax(1) == labels).double().mean()))


def test_cross_fitted_is_less_optimistic_than_the_fit_on_random_labels():
    gains = []
    for seed in range(8):
        probs, _ = samples(20, 200 + seed)
        noise = torch.from_numpy(np.random.default_rng(seed).permutation(20) % 6)
        fitted = fit_calibration(probs, noise, 0.8)
        same = metrics_of(probs, fitted.probs(probs), fitted.sets(probs), noise, NAMES)
        gains.append(cross_fitted(probs, noise, 0.8, NAMES).nll_after - same.nll_after)
    assert np.mean(gains) > 0


def test_metrics_of_each_class_match_a_plain_loop():
    probs, labels = samples(80, 8)
    labels[labels == 5] = 0
    fitted = fit_calibration(probs, labels, 0.8)
    sets = fitted.sets(probs)
    found = metrics_of(probs, fitted.probs(probs), sets, labels, NAMES)
    for number, row in enumerate(found.classes):
        mine = [place for place in range(80) if labels[place] == number]
        assert (row.name, row.count) == (str(number), len(mine))
        if not mine:
            assert (row.coverage, row.set_size) == (None, None)
            continue
        assert row.coverage == pytest.approx(sum(bool(sets[place, number]) for place in mine) / len(mine))
        assert row.set_size == pytest.approx(sum(int(sets[place].sum()) for place in mine) / len(mine))
    assert found.coverage == pytest.approx(np.mean([bool(sets[place, labels[place]]) for place in range(80)]))


def test_fit_calibration_works_without_labels_of_some_classes():
    probs, labels = samples(60, 9)
    fitted = fit_calibration(probs, labels % 3, 0.9)
    assert fitted.probs(probs).shape == fitted.sets(probs).shape == (60, 6)


def test_fit_calibration_keeps_the_confidence_if_all_samples_are_right():
    probs, _ = samples(60, 10)
    fitted = fit_calibration(probs, probs.argmax(1), 0.9)
    assert fitted.temperature == 1
    torch.testing.assert_close(fitted.probs(probs), probs.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_check_enough_accepts_labels_needed_and_no_fewer(coverage):
    needed = labels_needed(coverage)
    probs, labels = samples(needed, 11)
    check_enough(needed, coverage)
    assert cross_fitted(probs, labels, coverage, NAMES).samples == needed
    with pytest.raises(UserError, match=f"needs at least {needed} held-out labels"):
        check_enough(needed - 1, coverage)


def test_labels_needed_suffice_for_cross_fitting_at_every_coverage():
    """A fold leaves n' of n labels, and the guarantee needs (n' + 1) · coverage ≤ n'."""
    for percent in range(50, 100):
        n = labels_needed(percent / 100)
        rest = n - -(-n // 5)
        assert (rest + 1) * percent <= 100 * rest
        probs, labels = samples(rest, percent)
        assert fit_calibration(probs, labels, percent / 100).sets(probs).shape == (rest, 6)


@pytest.mark.parametrize("coverage", [0, 0.4, 1, 1.5, -0.1, float("nan")])
def test_check_meaningful_refuses_a_coverage_outside_its_range(coverage):
    with pytest.raises(UserError, match=r"at least 0\.5 and less than 1"):
        check_meaningful(coverage)


def test_check_enough_names_a_coverage_that_is_possible():
    with pytest.raises(UserError, match=r"lower the coverage to 0\.8"):
        check_enough(10, 0.9)


def test_calibration_names_the_extra_of_a_missing_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "mapie.classification", None)
    with pytest.raises(UserError, match=r"needs the package mapie.*pip install 'surelabel\[calibration\]'"):
        reload(calibration)
    monkeypatch.undo()
    reload(calibration)
