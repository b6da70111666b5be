"""Check a crystal set with MPB, the solver of the original data."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.phc.geometry import Crystal, draw
from surelabel.phc.solver import bands, widths
from surelabel.phc.store import CLASSES, EMBEDDED, CrystalSet, classify, load
from surelabel.phc.zone import stages
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

SYSTEM_PYTHON = Path("/usr/bin/python3")
_SCRIPT = Path(__file__).with_name("audit_mpb.py")


@dataclass(frozen=True)
class Difference:
    """One crystal, as stored in the set and as solved by MPB."""

    index: int  # number of the draw
    label: int
    mpb_label: int
    gap: float  # largest of the nine, percent
    mpb_gap: float
    epsilon: float  # largest difference of a pixel
    frequency: float  # mean relative difference over bands and wave vectors


def audit(
    samples: int = 30, seed: int = 0, path: Path = EMBEDDED, progress: Callable[[int, int], None] | None = None
) -> list[Difference]:
    """Solve `samples` random crystals, balanced over classes, with MPB (about 5 s each).

    `progress` is called with (crystals done, crystals in total).
    """
    if samples < 1:
        raise UserError(f"samples = {samples}: give at least 1")
    crystals = load(path)
    _require_mpb()
    rows = choose(crystals, samples, seed)
    points = np.concatenate(stages("midpoint" if crystals.grid == "midpoint" else "boundary"))
    differences = []
    for done, row in enumerate(rows, 1):
        crystal = draw(int(crystals.seed), int(crystals.index[row]), float(crystals.min_delta_eps))
        differences.append(compare(crystals, int(row), points, *_solve_with_mpb(crystal, points)))
        if progress is not None:
            progress(done, len(rows))
    return differences


def choose(crystals: CrystalSet, samples: int, seed: int) -> NDArray[np.int64]:
    """Random rows of the set, sorted, equally many of each class."""
    order = generator(seed, "phc-audit").permutation(len(crystals.label))
    turn = np.empty(len(order), dtype=np.int64)
    for number in range(len(CLASSES)):
        members = crystals.label[order] == number
        turn[members] = np.arange(members.sum())
    return np.sort(order[np.argsort(turn, kind="stable")][:samples])


def compare(
    crystals: CrystalSet,
    row: int,
    points: NDArray[np.float64],
    epsilon: NDArray[np.float64],
    frequencies: NDArray[np.float64],
) -> Difference:
    """Compare a row of the set with MPB's image [32, 32] and frequencies [points, 10]."""
    image = crystals.epsilon(np.array([row]))[0]
    ours = bands(image, points, frequencies.shape[1])
    mpb_gaps = widths(frequencies.max(axis=0), frequencies.min(axis=0))
    return Difference(
        index=int(crystals.index[row]),
        label=int(crystals.label[row]),
        mpb_label=int(classify(mpb_gaps)),
        gap=float(crystals.gaps[row].max()),
        mpb_gap=float(mpb_gaps.max()),
        epsilon=float(np.abs(image - epsilon).max()),
        frequency=float((np.abs(ours - frequencies)[:, 1:] / frequencies[:, 1:]).mean()),
    )


def _require_mpb() -> None:
    try:
        subprocess.run([SYSTEM_PYTHON, "-I", "-c", "import meep.mpb"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"the audit needs MPB, but {SYSTEM_PYTHON} cannot import meep.mpb. On Debian or Ubuntu: "
            "apt-get install mpb python3-meep python3-matplotlib python3-h5py"
        ) from error


def _solve_with_mpb(crystal: Crystal, points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """MPB's image of the crystal [32, 32] and its frequencies at these points [points, 10]."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "crystal.npz"), Path(folder, "bands.npz")
        np.savez(
            source,
            coefficients=crystal.coefficients,
            level=crystal.level,
            epsilon_in=crystal.epsilon_in,
            epsilon_out=crystal.epsilon_out,
            k_points=points,
        )
        run = subprocess.run(
            [SYSTEM_PYTHON, "-I", _SCRIPT, source, target],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if run.returncode != 0:
            raise UserError(f"MPB failed with code {run.returncode}: {run.stderr.strip()[-500:]}")
        with np.load(target, allow_pickle=False) as solved:
            return solved["epsilon"], solved["frequencies"]
