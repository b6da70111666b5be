"""Mean and std of a Bayesian head's softmax: the closed form beside M = 50 draws, in time and in error.

Logits of 112 samples with normal means, and stds spread evenly from 0.4 to 1.2 times the one that is named; a sample
with a larger std than the form is for gets fixed draws. The error is the root mean square over samples and classes,
against 100,000 draws, as a ratio to that of 50 draws.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from bench.timing import Row, interleaved
from surelabel.models.gaussian_softmax import by_draws, softmax_moments

DRAWS, TRUTH, SAMPLES, TRIES = 50, 100_000, 112, 5
CLASSES, STDS, MEANS = (2, 10, 100, 1000), (0.3, 1.0, 3.0), 3.0


def run() -> list[Row]:
    torch.set_num_threads(1)
    return [*_times(), *(row for classes in CLASSES for std in STDS for row in _errors(classes, std))]


def _logits(classes: int, std: float, samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(classes)
    shape = samples, classes
    return torch.randn(shape, generator=random) * MEANS, (0.4 + 0.8 * torch.rand(shape, generator=random)) * std


def _drawn(mean: Tensor, std: Tensor, random: np.random.Generator, draws: int = DRAWS) -> tuple[Tensor, Tensor]:
    noise = random.standard_normal((len(mean), draws, mean.shape[1]), dtype=np.float32)
    return by_draws(mean, std, torch.from_numpy(noise))


def _times() -> list[Row]:
    rows = []
    random = np.random.default_rng(0)
    for classes in CLASSES:
        for name, std in {"stds up to 1": 0.8, "stds up to 3.6": 3.0}.items():
            logits = _logits(classes, std)
            found = interleaved(
                {"draws": partial(_drawn, *logits, random), "form": partial(softmax_moments, *logits, DRAWS)}
            )
            rows.append(found.ratio(f"{classes} classes, {name}: form / 50 draws", "form", "draws"))
    return rows


def _errors(classes: int, std: float) -> list[Row]:
    mean, scale = _logits(classes, std, 20)
    random = np.random.default_rng(1)
    part = min(TRUTH, 5_000_000 // mean.numel())
    total, squares = torch.zeros(2, *mean.shape, dtype=torch.float64)
    for _ in range(TRUTH // part):
        probs, spread = (found.double() for found in _drawn(mean, scale, random, part))
        total, squares = total + probs, squares + spread.square() + probs.square()
    count = TRUTH // part
    truth = total / count, (squares / count - (total / count).square()).sqrt()
    ours = softmax_moments(mean, scale, DRAWS)
    theirs = [_drawn(mean, scale, random) for _ in range(TRIES)]
    return [
        Row(
            f"{classes} classes, stds near {std:g}: error of the {name}, form / 50 draws",
            _rms([ours[place] - truth[place]]) / _rms([drawn[place] - truth[place] for drawn in theirs]),
            "x the error",
            "at most 1",
        )
        for place, name in enumerate(("mean", "std"))
    ]


def _rms(errors: list[Tensor]) -> float:
    return float(torch.stack(errors).double().square().mean().sqrt())
