from math import cos, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.methods import schedules


def test_cosine_7_16_ends():
    assert schedules.cosine_7_16(0.03, 0, 100) == 0.03
    assert schedules.cosine_7_16(0.03, 100, 100) == pytest.approx(0.03 * sqrt((1 - cos(pi / 8)) / 2))
    assert schedules.cosine_7_16(0.03, 400, 700) == pytest.approx(0.03 * sqrt(0.5))
    rates = [schedules.cosine_7_16(0.03, k, 100) for k in range(101)]
    assert rates == sorted(rates, reverse=True)


def test_ema_decay_warm_rises_to_the_decay():
    assert schedules.ema_decay(0.99, 0, warm=True) == 0.1
    assert schedules.ema_decay(0.99, 8, warm=True) == 0.5
    assert schedules.ema_decay(0.99, 889, warm=True) < 0.99
    assert schedules.ema_decay(0.99, 890, warm=True) == pytest.approx(0.99, abs=1e-15)
    assert schedules.ema_decay(0.99, 10**9, warm=True) == 0.99
    assert schedules.ema_decay(0.05, 0, warm=True) == 0.05
    assert schedules.ema_decay(0.99, 0, warm=False) == 0.99


def test_one_minus_cosine_rises_from_zero_to_one():
    values = [schedules.one_minus_cosine(k, 4) for k in range(7)]
    assert values == pytest.approx([0, (1 - sqrt(0.5)) / 2, 0.5, (1 + sqrt(0.5)) / 2, 1, 1, 1])


def test_warmup_of_no_steps_is_over():
    assert schedules.linear_warmup(0.1, 0.75, 0, 0) == 0.75
    assert schedules.one_minus_cosine(0, 0) == 1


@given(start=st.floats(0, 1), end=st.floats(0, 1), n=st.integers(1, 300))
def test_linear_warmup_equals_interpolation(start, end, n):
    steps = np.arange(n + 10)
    values = [schedules.linear_warmup(start, end, int(k), n) for k in steps]
    np.testing.assert_allclose(values, np.interp(steps, [0, n], [start, end]), rtol=1e-14, atol=1e-15)


def test_warmup_cosine_has_exact_ends_and_midpoints():
    paws = [schedules.warmup_cosine(0.8, 3.2, 0.032, k, 10, 610) for k in range(700)]
    assert (paws[0], paws[10], paws[610]) == (0.8, 3.2, 0.032)
    assert paws[5] == pytest.approx(2.0, abs=1e-15)
    assert paws[310] == pytest.approx((3.2 + 0.032) / 2, abs=1e-15)
    assert set(paws[610:]) == {0.032}


def test_warmup_cosine_without_warmup_starts_at_the_peak():
    assert schedules.warmup_cosine(0.8, 3.2, 0.032, 0, 0, 100) == 3.2
    assert schedules.warmup_cosine(0.8, 3.2, 0.032, 25, 0, 100) == pytest.approx(0.032 + 3.168 * (2 + sqrt(2)) / 4)


def test_warmup_cosine_with_a_long_warmup_is_cut_off():
    assert [schedules.warmup_cosine(0.0, 4.0, 1.0, k, 4, 4) for k in range(6)] == [0.0, 1.0, 2.0, 3.0, 1.0, 1.0]
    assert [schedules.warmup_cosine(0.0, 4.0, 1.0, k, 4, 2) for k in range(3)] == [0.0, 1.0, 2.0]


@given(*[st.floats(0, 10)] * 3, st.integers(0, 60), st.integers(1, 200))
def test_warmup_cosine_equals_the_formula(a, b, c, warmup, rest):
    end, start, peak = sorted([a, b, c])
    K = warmup + rest
    values = np.array([schedules.warmup_cosine(start, peak, end, k, warmup, K) for k in range(K + 1)])
    line = np.linspace(start, peak, warmup + 1)
    wave = end + (peak - end) * np.cos(np.linspace(0, np.pi / 2, rest + 1)) ** 2  # (1 + cos x) / 2 = cos²(x / 2)
    np.testing.assert_allclose(values, np.concatenate([line[:-1], wave]), rtol=1e-13, atol=1e-14)
    assert (values[0], values[warmup], values[K]) == (start if warmup else peak, peak, end)
    assert (np.diff(values[: warmup + 1]) >= -1e-14).all()
    assert (np.diff(values[warmup:]) <= 1e-14).all()


def test_ema_cosine_has_exact_ends():
    values = [schedules.ema_cosine(0.95, k, 100) for k in range(130)]
    assert values[0] == 0.95
    assert values[50] == pytest.approx(0.975, abs=1e-15)
    assert set(values[100:]) == {1.0}
    assert schedules.ema_cosine(0.25, 0, 100) == 0.25
    assert schedules.ema_cosine(0.25, 0, 0) == 1


@given(st.floats(0, 1), st.integers(1, 300))
def test_ema_cosine_equals_the_formula(gamma_0, K):
    values = np.array([schedules.ema_cosine(gamma_0, k, K) for k in range(K + 1)])
    formula = 1 - (1 - gamma_0) * (1 + np.cos(np.pi * np.arange(K + 1) / K)) / 2
    np.testing.assert_allclose(values, formula, rtol=0, atol=1e-15)
    assert (np.diff(values) >= -1e-15).all()
    assert values.max() <= 1
