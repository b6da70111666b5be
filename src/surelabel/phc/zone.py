"""The wave vectors at which gaps are tested: half of a 25 x 25 grid, from coarse to fine."""

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Grid = Literal["midpoint", "boundary"]

SIDE = 25
_STRIDES = (12, 4, 2, 1)


@cache
def stages(grid: Grid = "midpoint") -> tuple[NDArray[np.float64], ...]:
    """The 313 grid points in units of 2π/a: a few coarse ones [5, 2], then three refinements.

    "midpoint" is (i + ½)/25 - ½, which avoids the zone boundary; "boundary" is i/24 - ½, which
    contains Γ, X and M. The grid is halved by k ↔ -k, the only symmetry of a general crystal. The
    boundary grid keeps both of its equivalent edges: without one, the points, and with them the
    gap, would change under reflection.
    """
    axis = (np.arange(SIDE) + 0.5) / SIDE - 0.5 if grid == "midpoint" else np.arange(SIDE) / (SIDE - 1) - 0.5
    centre = SIDE // 2
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    half = (y > centre) | ((y == centre) & (x >= centre))
    # Each point belongs to the coarsest stride that contains it; strides divide the 24 steps.
    stage = np.argmax([(x % stride == 0) & (y % stride == 0) for stride in _STRIDES], axis=0)
    return tuple(
        np.stack([axis[x[here]], axis[y[here]]], axis=1) for here in (half & (stage == s) for s in range(len(_STRIDES)))
    )
