"""Crystal sets and their files, .npz archives of plain arrays."""

import io
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.phc.geometry import PIXELS, mix
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

EMBEDDED = Path(__file__).with_name("phc.npz")  # the set that comes with the package
RECIPE_VERSION = 1  # increase it when the same seed gives another crystal or gap
CLASSES = ("no gap", "0-5 %", "5-12 %", "12-20 %", "over 20 %")
_CLASS_BOUNDS = (0.0, 5.0, 12.0, 20.0)


@dataclass(frozen=True)
class CrystalSet:
    """N crystals in the order of their draws, and the settings they were generated with."""

    index: NDArray[np.int64]  # [N] number of the draw: geometry.draw(seed, index, min_delta_eps) is the crystal
    coverage: NDArray[np.uint8]  # [N, 32, 32] how many of nine points are in epsilon_in, indexed [x, y]
    epsilon_in: NDArray[np.float64]  # [N]
    epsilon_out: NDArray[np.float64]  # [N]
    filling: NDArray[np.float64]  # [N]
    gaps: NDArray[np.float64]  # [N, 9] percent of mid-gap, 0 where closed
    label: NDArray[np.int64]  # [N] the class of the largest gap
    test: NDArray[np.bool_]  # [N] whether it is a test sample
    seed: NDArray[np.int64]  # scalars from here on
    draws: NDArray[np.int64]  # number of crystals drawn to find these
    min_delta_eps: NDArray[np.float64]
    grid: NDArray[np.str_]
    recipe_version: NDArray[np.int64]

    def epsilon(self, rows: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
        """The permittivity images of these rows [n, 32, 32], indexed [x, y]."""
        return mix(self.coverage[rows], self.epsilon_in[rows, None, None], self.epsilon_out[rows, None, None])

    def counts(self) -> NDArray[np.int64]:
        """The number of crystals in each of the five classes [5]."""
        return np.bincount(self.label, minlength=len(CLASSES)).astype(np.int64)


def classify(gaps: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class of the largest gap [..., 9] -> [...]: 0, (0, 5], (5, 12], (12, 20], > 20 %."""
    label: NDArray[np.int64] = np.searchsorted(_CLASS_BOUNDS, gaps.max(axis=-1), side="left").astype(np.int64)
    return label


def save(crystals: CrystalSet, path: Path) -> None:
    """Write the set; equal sets give equal bytes, since the archive contains no dates."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{field.name: getattr(crystals, field.name) for field in fields(CrystalSet)})
    with atomic_write(path, "wb") as file:
        file.write(buffer.getbuffer())


def load(path: Path) -> CrystalSet:
    """Read a set. Raises UserError if it is damaged or of another recipe version."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            crystals = CrystalSet(**{field.name: arrays[field.name] for field in fields(CrystalSet)})
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: make it with `surelabel data make-phc`") from error
    except Exception as error:  # a damaged archive raises one of a dozen types
        raise UserError(f"{path} is not a readable crystal set ({error}): make it again") from error
    n = len(crystals.index)
    if crystals.recipe_version != RECIPE_VERSION:
        raise UserError(f"{path} has recipe version {crystals.recipe_version}, not {RECIPE_VERSION}: make it again")
    if crystals.coverage.shape != (n, PIXELS, PIXELS) or len(crystals.label) != n or crystals.test.shape != (n,):
        raise UserError(f"{path} holds arrays of different lengths: make it again")
    return crystals
