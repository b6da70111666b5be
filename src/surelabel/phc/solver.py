"""TM bands (E along the rods) and complete gaps of 2D photonic crystals by plane-wave expansion.

Conventions: a square lattice with lattice constant a = 1; permittivity images indexed [x, y]; wave
vectors k in units of 2π/a; frequencies ν = ωa/2πc. With E(r) = Σ_G x_G exp(2πi (k+G)·r), Maxwell's
equations read |k+G|² x = ν² ε̂ x, where ε̂ is the matrix of Fourier coefficients of ε at G - G'.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surelabel.phc.zone import Grid, stages
from surelabel.utils.errors import UserError

CUTOFF = 5  # 81 waves: over 30 crystals the largest gap differed from MPB's by 0.02 points, at most 0.16
GAP_BANDS = 10
CLOSED = 1e-4  # percent; a smaller gap is a rounding error, for example between bands that touch
_BATCH_ENTRIES = 2**21  # 32 MiB of matrices at a time


def bands(
    epsilon: ArrayLike, k_points: ArrayLike, n_bands: int = GAP_BANDS, cutoff: int = CUTOFF
) -> NDArray[np.float64]:
    """The lowest TM frequencies ωa/2πc at each wave vector [n, n_bands], in ascending order.

    epsilon: relative permittivity of one square cell [N, N], real and positive, indexed [x, y].
    k_points: wave vectors [n, 2] in units of 2π/a; (½, 0) is X, (½, ½) is M. They are moved into
        the first Brillouin zone.
    cutoff: plane waves with |G| ≤ cutoff are used; frequencies converge from above.
    """
    image = _checked_image(epsilon)
    points = _checked_points(k_points)
    cutoff = _checked_integer(cutoff, "cutoff", 1)
    n_bands = _checked_integer(n_bands, "n_bands", 2)
    if n_bands > len(_waves(cutoff)):
        raise UserError(
            f"n_bands = {n_bands}, but cutoff = {cutoff} has only {len(_waves(cutoff))} plane waves: increase cutoff"
        )
    # The waves are centred on G = 0: only a k of the first zone has its neighbours on all sides.
    return _frequencies(_operators(image, cutoff), points - np.round(points), n_bands)


def gaps(epsilon: ArrayLike, grid: Grid = "midpoint", cutoff: int = CUTOFF) -> NDArray[np.float64]:
    """The complete TM gaps [9] between bands n and n+1, n = 1..9, percent of mid-gap; 0: closed.

    Δ_n = 200 (min_k ν_{n+1} - max_k ν_n) / (min_k ν_{n+1} + max_k ν_n), over a 25 x 25 grid of the
    whole zone (see `surelabel.phc.zone.stages`). The search stops as soon as a part of the grid
    closes all nine: more points can only lower minima and raise maxima.
    """
    if grid not in ("midpoint", "boundary"):
        raise UserError(f'grid = {grid!r} is not known: choose "midpoint" or "boundary"')
    operators = _operators(_checked_image(epsilon), _checked_integer(cutoff, "cutoff", 2))
    top = np.full(GAP_BANDS, -np.inf)
    bottom = np.full(GAP_BANDS, np.inf)
    width = np.zeros(GAP_BANDS - 1)
    for points in stages(grid):
        frequencies = _frequencies(operators, points, GAP_BANDS)
        top = np.maximum(top, frequencies.max(axis=0))
        bottom = np.minimum(bottom, frequencies.min(axis=0))
        width = widths(top, bottom)
        if not width.any():
            break
    return width


def widths(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gaps [bands - 1] in percent of mid-gap, from the top and bottom of each band [bands]."""
    width: NDArray[np.float64] = 200 * (bottom[1:] - top[:-1]) / (bottom[1:] + top[:-1])
    width[width <= CLOSED] = 0.0
    return width


@cache
def _waves(cutoff: int) -> NDArray[np.int64]:
    """All integer G with |G| ≤ cutoff [waves, 2]; invariant under quarter turns and reflection."""
    axis = np.arange(-cutoff, cutoff + 1)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    disc: NDArray[np.int64] = grid[(grid**2).sum(axis=1) <= cutoff**2]
    return disc


def _operators(image: NDArray[np.float64], cutoff: int) -> NDArray[np.complex128]:
    """S [4, waves, waves] with A(k) = |k|² S₀ + k_x S₁ + k_y S₂ + S₃, whose eigenvalues are ν².

    With ε̂ = L L†: S_j = L⁻¹ diag(w_j) L⁻†, where |k+G|² = |k|² w₀ + k_x w₁ + k_y w₂ + w₃.
    """
    # G - G' reaches ±2·cutoff: the pixels of a small image are repeated, since it would alias.
    repeat = -(-(4 * cutoff + 1) // len(image))
    image = image.repeat(repeat, axis=0).repeat(repeat, axis=1)
    spectrum = np.fft.fft2(image, norm="forward")
    waves = _waves(cutoff)
    difference = waves[:, None] - waves[None]
    matrix = spectrum[difference[..., 0] % len(image), difference[..., 1] % len(image)]
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError as error:
        raise UserError(
            f"epsilon ranges from {image.min():g} to {image.max():g}: too far apart for double precision"
        ) from error
    weights = np.stack([np.ones(len(waves)), 2 * waves[:, 0], 2 * waves[:, 1], (waves**2).sum(axis=1)])
    operators: NDArray[np.complex128] = (inverse * weights[:, None]) @ inverse.conj().T
    return operators


def _frequencies(operators: NDArray[np.complex128], points: NDArray[np.float64], n_bands: int) -> NDArray[np.float64]:
    """The lowest frequencies at each point [n, n_bands]."""
    size = operators.shape[1]
    weights = np.column_stack([(points**2).sum(axis=1), points, np.ones(len(points))])
    flat = operators.reshape(4, -1).view(np.float64)  # half the work of a complex product
    squares = np.empty((len(points), n_bands))
    batch = max(1, _BATCH_ENTRIES // size**2)
    for start in range(0, len(points), batch):
        matrices = (weights[start : start + batch] @ flat).view(np.complex128).reshape(-1, size, size)
        squares[start : start + batch] = np.linalg.eigvalsh(matrices)[:, :n_bands]
    squares[~points.any(axis=1), 0] = 0.0  # the constant field at Γ; the root would magnify rounding errors
    return np.sqrt(np.maximum(squares, 0.0))


def _checked_image(epsilon: ArrayLike) -> NDArray[np.float64]:
    image = _real_array(epsilon, "epsilon")
    if image.ndim != 2 or image.shape[0] != image.shape[1] or image.size == 0:
        raise UserError(f"epsilon has shape {image.shape}: give one square image [N, N], indexed [x, y]")
    if not (image > 0).all():
        raise UserError(f"epsilon must be positive everywhere; its smallest value is {image.min():g}")
    return image


def _checked_points(k_points: ArrayLike) -> NDArray[np.float64]:
    points = _real_array(k_points, "k_points")
    if points.ndim != 2 or points.shape[1] != 2:
        raise UserError(f"k_points has shape {points.shape}: give one (k_x, k_y) per row, [n, 2]")
    return points


def _real_array(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise UserError(f"{name} is not an array: its rows differ in length") from error
    if array.dtype.kind not in "fiu":
        raise UserError(f"{name} has type {array.dtype}: give real numbers")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise UserError(f"{name} has {(~np.isfinite(array)).sum()} values that are not finite")
    return array


def _checked_integer(value: int, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} = {value!r}: give an integer of at least {least}")
    return int(value)
