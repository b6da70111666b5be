from math import cos, pi, sqrt

import pytest

from surelabel import schedules


def test_cosine_starts_at_the_rate_and_ends_at_seven_sixteenths_of_pi():
    assert schedules.cosine_7_16(0.03, 0, 100) == 0.03
    assert schedules.cosine_7_16(0.03, 100, 100) == pytest.approx(0.03 * sqrt((1 - cos(pi / 8)) / 2))
    assert schedules.cosine_7_16(0.03, 400, 700) == pytest.approx(0.03 * sqrt(0.5))
    rates = [schedules.cosine_7_16(0.03, k, 100) for k in range(101)]
    assert rates == sorted(rates, reverse=True)


def test_cold_ema_decay_is_constant():
    assert {schedules.ema_decay(0.999, n, warm=False) for n in range(100)} == {0.999}


def test_warm_ema_decay_rises_to_the_decay_and_stays():
    assert schedules.ema_decay(0.99, 0, warm=True) == 0.1
    assert schedules.ema_decay(0.99, 8, warm=True) == 0.5
    assert schedules.ema_decay(0.99, 889, warm=True) < 0.99
    assert schedules.ema_decay(0.99, 890, warm=True) == pytest.approx(0.99, abs=1e-15)
    assert schedules.ema_decay(0.99, 10**9, warm=True) == 0.99
    assert schedules.ema_decay(0.05, 0, warm=True) == 0.05


def test_linear_warmup_is_straight_then_held():
    assert [schedules.linear_warmup(0.5, 2.5, k, 4) for k in range(7)] == [0.5, 1.0, 1.5, 2.0, 2.5, 2.5, 2.5]
    assert schedules.linear_warmup(2.0, 1.0, 1, 2) == 1.5


def test_one_minus_cosine_rises_from_zero_to_one_then_held():
    values = [schedules.one_minus_cosine(k, 4) for k in range(7)]
    assert values == pytest.approx([0, (1 - sqrt(0.5)) / 2, 0.5, (1 + sqrt(0.5)) / 2, 1, 1, 1])


def test_a_warm_up_of_no_steps_is_over_at_once():
    assert schedules.linear_warmup(0.1, 0.75, 0, 0) == 0.75
    assert schedules.one_minus_cosine(0, 0) == 1
