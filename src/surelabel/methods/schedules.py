"""Schedules: pure functions of the step, so that a resumed run needs no memory of them."""

from math import cos, pi


def cosine_7_16(lr: float, k: int, K: int) -> float:
    """Learning rate at step k of K: lr · cos(7πk / 16K), which ends at 0.195 lr (FixMatch)."""
    return lr * cos(7 * pi * k / (16 * K))


def ema_decay(decay: float, n: int, warm: bool) -> float:
    """Share of the average kept at its n-th update; warm: min(decay, (1+n)/(10+n)), so the first weights fade soon."""
    return min(decay, (1 + n) / (10 + n)) if warm else decay


def linear_warmup(start: float, end: float, k: int, n: int) -> float:
    """From start at step 0 in a straight line to end at step n, then held."""
    return end if k >= n else start + (end - start) * k / n


def one_minus_cosine(k: int, T: int) -> float:
    """From 0 at step 0 to 1 at step T as (1 - cos(πk/T)) / 2, then held."""
    return 1.0 if k >= T else (1 - cos(pi * k / T)) / 2


def warmup_cosine(start: float, peak: float, end: float, k: int, warmup: int, K: int) -> float:
    """In a straight line from start at step 0 to peak at step warmup, by half a cosine to end at step K, then held."""
    if k < warmup:
        return linear_warmup(start, peak, k, warmup)
    fallen = one_minus_cosine(k - warmup, K - warmup)
    return (1 - fallen) * peak + fallen * end


def ema_cosine(gamma_0: float, k: int, K: int) -> float:
    """Share γ of the average kept at step k: 1 - γ = (1 - γ₀)(1 + cos(πk/K)) / 2, up to 1 at step K, then held."""
    risen = one_minus_cosine(k, K)
    return (1 - risen) * gamma_0 + risen
