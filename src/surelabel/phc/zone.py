"""The wave vectors at which a gap is tested: half of a 25 x 25 grid, in the order of a coarse-to-fine search."""

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Grid = Literal["midpoint", "boundary"]

SIDE = 25
_STRIDES = (12, 4, 2, 1)


@cache
def stages(grid: Grid = "midpoint") -> tuple[NDArray[np.float64], ...]:
    """The points of the grid in units of 2π/a, split into a few coarse ones [5, 2] and three refinements; 313 in all.

    "midpoint" is (i + ½)/25 - ½, which avoids the zone's boundary; "boundary" is i/24 - ½, which holds Γ, X and M.
    Only k ↔ -k is used to halve the grid: a crystal without symmetry has nothing else. The boundary grid keeps both
    of its equivalent edges, since dropping one would make the set of points, and with it the gap, change under a
    mirror.
    """
    axis = (np.arange(SIDE) + 0.5) / SIDE - 0.5 if grid == "midpoint" else np.arange(SIDE) / (SIDE - 1) - 0.5
    centre = SIDE // 2
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    half = (y > centre) | ((y == centre) & (x >= centre))
    # Each point belongs to the first, coarsest, stride that holds it: the strides divide the 24 steps of an axis.
    stage = np.argmax([(x % stride == 0) & (y % stride == 0) for stride in _STRIDES], axis=0)
    return tuple(
        np.stack([axis[x[here]], axis[y[here]]], axis=1) for here in (half & (stage == s) for s in range(len(_STRIDES)))
    )
