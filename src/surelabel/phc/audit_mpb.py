"""Solve one crystal with MPB. Run by the system's Python, which has MPB, not by surelabel's.

    python3 audit_mpb.py INPUT.npz OUTPUT.npz

To be independent, it shares no code with surelabel's geometry or solver.
"""

import sys
from cmath import exp, pi

import meep as mp  # type: ignore[import-not-found]
import numpy as np
from meep import mpb


def main() -> None:
    source, target = sys.argv[1:]
    with np.load(source, allow_pickle=False) as given:
        coefficients = given["coefficients"].tolist()
        level = float(given["level"])
        inside, outside = (mp.Medium(epsilon=float(given[name])) for name in ("epsilon_in", "epsilon_out"))
        k_points = [mp.Vector3(x, y) for x, y in given["k_points"].tolist()]

    def material(point: mp.Vector3) -> mp.Medium:
        waves = [(i, j, exp(2j * pi * ((i - 1) * point.x + (j - 1) * point.y))) for i in range(3) for j in range(3)]
        return inside if sum(coefficients[i][j] * wave for i, j, wave in waves).real > level else outside

    solver = mpb.ModeSolver(
        geometry_lattice=mp.Lattice(size=mp.Vector3(1, 1)),
        default_material=material,
        k_points=k_points,
        num_bands=10,
        resolution=32,
        mesh_size=3,
    )
    solver.verbose = False
    solver.run_tm()
    np.savez(target, epsilon=np.array(solver.get_epsilon()), frequencies=np.array(solver.all_freqs))


if __name__ == "__main__":
    main()
