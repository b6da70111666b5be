"""Intervals of shares of few samples."""

from math import sqrt

Z95 = 1.96  # normal quantile for 95 %
# Samples from which on an ECE is shown, and an accuracy without its interval: of a perfect model, 40 samples show an
# ECE of about 0.1.
ENOUGH = 500


def wilson(fraction: float, count: float) -> tuple[float, float]:
    """95 % Wilson interval of a fraction of `count` samples."""
    spread = Z95**2 / count
    centre = (fraction + spread / 2) / (1 + spread)
    half = Z95 * sqrt(fraction * (1 - fraction) / count + spread / (4 * count)) / (1 + spread)
    return centre - half, centre + half
