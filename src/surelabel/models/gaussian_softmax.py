"""Mean and std of the softmax of independent Gaussian logits, as a function of their means and stds alone.

The probability of a class is the logistic function of its logit less the log of the others' summed exponentials. Of
the sum, a log-normal keeps mean and variance (Fenton, 1960; exact for two classes), so the difference is a Gaussian,
over which Gauss-Hermite quadrature averages. For stds up to 1 this errs less than 50 draws do, and from ten classes on
takes less than a tenth of their time (`python -m bench softmax`). Samples with a larger std get draws, the same for
every sample.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from surelabel.utils.devices import accumulation_dtype

SPREAD = 1.0  # the largest std for which the closed form is used
NODES, WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(7))
WEIGHTS = WEIGHTS / WEIGHTS.sum()
LEAST = 1e-18  # a sum of the others so much smaller than the largest class does not count
CHUNK = 2**20  # drawn probabilities in memory at a time


def softmax_moments(mean: Tensor, std: Tensor, draws: int) -> tuple[Tensor, Tensor]:
    """Mean and std [N, K] of the softmax of Gaussian logits [N, K]; with so many draws where they are uncertain."""
    probs, spread = closed_form(mean, std)
    wide = std.amax(dim=-1) > SPREAD
    if wide.any():
        shared = fixed_draws(draws, mean.shape[1]).to(mean)
        for rows in torch.split(wide.nonzero().squeeze(-1), max(1, CHUNK // shared.numel())):
            probs[rows], spread[rows] = by_draws(mean[rows], std[rows], shared)
    return probs, spread


def closed_form(mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """The log-normal approximation, for any std."""
    variance = std.square()
    logs = mean + variance / 2
    top = logs.amax(dim=-1, keepdim=True)
    # The means of the exponentials, and their variances; of all others, as precisely as can be: one may be nearly all.
    means = (logs - top).exp()
    variances = means.square() * variance.expm1()
    exact = [part.to(accumulation_dtype(mean.device)) for part in (means, variances)]
    first, second = (part.sum(dim=-1, keepdim=True) - part for part in exact)
    first, second = first.clamp_min(LEAST), second.clamp_min(0)
    others = (second / first.square()).log1p()
    centre = (mean - top) - (first.log() - others / 2).to(mean.dtype)
    scale = (variance + others.to(mean.dtype)).sqrt()
    nodes, weights = NODES.to(mean), WEIGHTS.to(mean)
    found = torch.sigmoid(centre + nodes[:, None, None] * scale)
    probs = torch.tensordot(weights, found, dims=1)
    spread = torch.tensordot(weights, (found - probs).square(), dims=1).sqrt()
    return probs / probs.sum(dim=-1, keepdim=True), spread


def by_draws(mean: Tensor, std: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std (1/M) over standard normal draws [M, K] that all samples share."""
    spread, probs = torch.std_mean((mean[:, None] + std[:, None] * draws).softmax(dim=-1), dim=1, correction=0)
    return probs, spread


@lru_cache(maxsize=8)
def fixed_draws(draws: int, classes: int) -> Tensor:
    """Standard normal draws [M, K], always the same: scrambled Sobol points with mean 0 and std 1 in each class."""
    dimensions = min(classes, SobolEngine.MAXDIM)
    engine = SobolEngine(dimensions, scramble=True, seed=0)  # type: ignore[no-untyped-call]
    points: Tensor = engine.draw(draws).clamp(1e-6, 1 - 1e-6)
    normals: Tensor = torch.special.ndtri(points[:, torch.arange(classes) % dimensions])
    return (normals - normals.mean(dim=0)) / normals.std(dim=0, correction=0).clamp_min(1e-6)
