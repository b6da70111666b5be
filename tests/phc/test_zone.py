import numpy as np
import pytest

from surelabel.phc.zone import stages


def as_set(points):
    return {(round(float(x), 9) + 0.0, round(float(y), 9) + 0.0) for x, y in points}


@pytest.mark.parametrize(
    ("grid", "axis"),
    [("midpoint", [(i + 0.5) / 25 - 0.5 for i in range(25)]), ("boundary", [i / 24 - 0.5 for i in range(25)])],
)
def test_stages_and_their_negatives_are_the_whole_grid(grid, axis):
    points = np.concatenate(stages(grid))
    assert len(points) == 313
    assert as_set(points) | as_set(-points) == as_set([(x, y) for x in axis for y in axis])
    assert as_set(points) & as_set(-points) == {(0.0, 0.0)}


@pytest.mark.parametrize("grid", ["midpoint", "boundary"])
def test_stages_are_nested_grids(grid):
    sizes = [len(points) for points in stages(grid)]
    # A grid of side s, halved by k ↔ -k: 3, 7, 13 and 25 points a side.
    assert np.cumsum(sizes).tolist() == [(s * s + 1) // 2 for s in (3, 7, 13, 25)]


def test_stages_of_the_boundary_begin_with_symmetry_points():
    coarse = as_set(np.abs(stages("boundary")[0]))
    assert coarse == {(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5)}
