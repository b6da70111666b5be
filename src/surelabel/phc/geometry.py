"""Random crystals: two materials, divided by a level set of a short random Fourier series.

Lengths are in units of the lattice constant; the cell is [-1/2, 1/2)². Images are indexed [x, y].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.rng import generator

PIXELS = 32
EPSILON_RANGE = (1.0, 20.0)
FILLING_RANGE = (0.01, 0.99)

_ORDERS = np.arange(-1, 2)
_LEVEL_POINTS = np.linspace(-0.5, 0.5, 50)
# A pixel is the mean of 3 x 3 points around its node j/32 - ½, as in MPB.
_SUB_PIXEL_POINTS = (np.arange(3 * PIXELS) - 1) / (3 * PIXELS) - 0.5


@dataclass(frozen=True)
class Crystal:
    """Two materials, divided where f(r) = Re Σ c_n exp(2πi n·r) crosses its `filling`-quantile."""

    coefficients: NDArray[np.complex128]  # [3, 3], of the orders n_x, n_y = -1, 0, 1
    filling: float  # fraction of the cell with f below the level, that is, of epsilon_out
    epsilon_in: float  # where f is above the level
    epsilon_out: float

    @property
    def level(self) -> float:
        return float(np.quantile(_series(self.coefficients, _LEVEL_POINTS), self.filling))

    def coverage(self) -> NDArray[np.uint8]:
        """How many of the nine points of each pixel are in epsilon_in [32, 32], 0 to 9."""
        inside = _series(self.coefficients, _SUB_PIXEL_POINTS) > self.level
        count: NDArray[np.uint8] = inside.reshape(PIXELS, 3, PIXELS, 3).sum(axis=(1, 3), dtype=np.uint8)
        return count

    def epsilon(self) -> NDArray[np.float64]:
        """The permittivity of each pixel [32, 32]."""
        return mix(self.coverage(), self.epsilon_in, self.epsilon_out)


def draw(seed: int, index: int, min_delta_eps: float = 0.0) -> Crystal:
    """Crystal number `index` of a seed, independent of all other draws.

    The two permittivities are uniform on [1, 20]², but differ by at least `min_delta_eps`.
    """
    uniform = generator(seed, "phc", index).random(21)
    amplitude, phase = uniform[:9].reshape(3, 3), uniform[9:18].reshape(3, 3)
    low, high = FILLING_RANGE
    bottom, top = EPSILON_RANGE
    # Raising the larger one by min_delta_eps maps the square of side 19 - min_delta_eps uniformly
    # onto the allowed part of the large square: no draw is rejected.
    pair = bottom + (top - bottom - min_delta_eps) * uniform[19:]
    pair[np.argmax(pair)] += min_delta_eps
    return Crystal(
        coefficients=amplitude * np.exp(2j * np.pi * phase),
        filling=float(low + (high - low) * uniform[18]),
        epsilon_in=float(pair[0]),
        epsilon_out=float(pair[1]),
    )


def mix(
    coverage: NDArray[np.uint8], epsilon_in: float | NDArray[np.float64], epsilon_out: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """The mean permittivity of pixels with `coverage` of nine points in epsilon_in."""
    fraction = coverage / 9
    return epsilon_out + fraction * (epsilon_in - epsilon_out)


def _series(coefficients: NDArray[np.complex128], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """f on the square grid of these coordinates [n] -> [n, n]."""
    waves = np.exp(2j * np.pi * points[:, None] * _ORDERS)
    values: NDArray[np.complex128] = waves @ coefficients @ waves.T
    return values.real
