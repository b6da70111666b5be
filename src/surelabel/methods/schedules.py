"""Schedules, as pure functions of the step: they need no state to resume."""

from math import cos, pi


def cosine_7_16(lr: float, k: int, K: int) -> float:
    """Learning rate at step k of K: lr · cos(7πk / 16K), which ends at 0.195 lr (FixMatch)."""
    return lr * cos(7 * pi * k / (16 * K))


def ema_decay(decay: float, n: int, warm: bool) -> float:
    """γ of an average at its n-th update; warm: min(decay, (1 + n) / (10 + n)), so the first weights fade soon."""
    return min(decay, (1 + n) / (10 + n)) if warm else decay


def linear_warmup(start: float, end: float, k: int, n: int) -> float:
    """Linear from start at step 0 to end at step n, then constant."""
    return end if k >= n else start + (end - start) * k / n


def one_minus_cosine(k: int, T: int) -> float:
    """(1 - cos(πk/T)) / 2, from 0 at step 0 to 1 at step T, then constant."""
    return 1.0 if k >= T else (1 - cos(pi * k / T)) / 2


def warmup_cosine(start: float, peak: float, end: float, k: int, warmup: int, K: int) -> float:
    """Linear from start at step 0 to peak at step warmup, half a cosine to end at step K, then constant."""
    if k < warmup:
        return linear_warmup(start, peak, k, warmup)
    fallen = one_minus_cosine(k - warmup, K - warmup)
    return (1 - fallen) * peak + fallen * end


def ema_cosine(gamma_0: float, k: int, K: int) -> float:
    """γ of an average at step k: 1 - γ = (1 - γ₀)(1 + cos(πk/K)) / 2, up to 1 at step K, then constant."""
    risen = one_minus_cosine(k, K)
    return (1 - risen) * gamma_0 + risen
