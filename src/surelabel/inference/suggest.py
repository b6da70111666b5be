"""Which unlabelled samples of a run's pool to label next: those that it is unsure of and that differ."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.source import UNLABELLED, Source
from surelabel.equations import entropy
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.network import Network
from surelabel.utils.csv import write_csv
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

# Drawn from so many of the most uncertain samples for each one asked for, and from no fewer than LEAST: the features of
# a large pool need not fit in memory.
CANDIDATES, LEAST = 50, 10_000


class NothingUnlabelled(UserError):
    """Every sample of a run's pool has a label."""


@dataclass(frozen=True)
class Suggestion:
    """A sample to label: its place in the run's pool, its file or number in the data, and what the run predicts."""

    rank: int  # from 1, in the order of the draws
    index: int
    sample: str | int
    predicted: str
    confidence: float
    entropy: float  # in nats
    confidence_std: float | None  # from a Bayesian head


def suggestions(run: TrainedRun, n: int) -> list[Suggestion]:
    """The n samples of a run's pool to label next; fewer where it has no more that differ. The same each time."""
    if n < 1:
        raise UserError(f"asked for {n} suggestions: ask for at least one")
    source, pool, prediction = run.data.train, run.unlabelled, run.pool_prediction
    uncertainty = entropy(prediction.probs)
    # Stable, so that equally uncertain samples come in the order of the pool on any machine.
    likely = uncertainty.argsort(descending=True, stable=True)[: max(CANDIDATES * n, LEAST)]
    features = backbone_features(run.network, source, pool[likely.numpy()], run.config.evaluation.batch)
    chosen = likely[uncertain_and_diverse(features, uncertainty[likely], n, generator(0, "suggest"))]
    confidence, number = prediction.probs[chosen].max(dim=-1)
    stds = None if prediction.std is None else prediction.std[chosen].gather(-1, number[:, None])[:, 0].tolist()
    index = pool[chosen.numpy()].tolist()
    samples = source.names(pool[chosen.numpy()])
    return [
        Suggestion(
            rank=place + 1,
            index=index[place],
            sample=samples[place],
            predicted=source.classes[number[place]],
            confidence=float(confidence[place]),
            entropy=float(uncertainty[chosen[place]]),
            confidence_std=None if stds is None else stds[place],
        )
        for place in range(len(chosen))
    ]


def suggest_to_csv(run: TrainedRun, n: int, out: Path) -> list[Suggestion]:
    """Write one line per suggestion: its rank, its file or number, the predicted class, confidence, entropy and std.

    The column `label` is left empty: filled in, the file can be given as labels to another run.
    """
    found = suggestions(run, n)
    columns = ["rank", "sample", "label", "predicted", "confidence", "entropy"]
    if found and found[0].confidence_std is not None:
        columns.append("confidence_std")
    rows = (
        (one.rank, one.sample, "", one.predicted, one.confidence, one.entropy)
        + (() if one.confidence_std is None else (one.confidence_std,))
        for one in found
    )
    write_csv(out, columns, rows)
    return found


def unlabelled(source: Source, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples that may be suggested: none that the run learnt from, and none whose class is known already.

    Where every class is known, as in a published data set, the run was not shown those beyond its own labels.
    """
    unknown = source.labels == UNLABELLED
    candidates = unknown if unknown.any() else np.ones(len(source), dtype=np.bool_)
    candidates[labelled] = False
    if not candidates.any():
        raise NothingUnlabelled("every sample of the run's pool is labelled: there is nothing to suggest")
    return np.flatnonzero(candidates)


@torch.no_grad()
def backbone_features(network: Network, source: Source, index: NDArray[np.int64], batch: int) -> Tensor:
    """The features [N, D] that the network's head sees of these images, on the CPU. The network is in eval mode."""
    device = network.scale.device
    parts = [
        network.features(torch.from_numpy(source.samples(index[start : start + batch])).to(device)).cpu()
        for start in range(0, len(index), batch)
    ]
    return torch.cat(parts)


def uncertain_and_diverse(features: Tensor, uncertainty: Tensor, n: int, draws: np.random.Generator) -> Tensor:
    """Places of n of N samples, drawn one after the other. features [N, D], uncertainty [N] -> [n], or fewer.

    The chance of a sample is its uncertainty × its squared distance to the nearest one drawn before, between features
    of length 1. So k-means++ draws its centres, and BADGE (Ash et al., 2020, "Deep batch active learning by diverse,
    uncertain gradient lower bounds") its batch. A copy of a sample drawn, at distance 0, is never drawn. Taking the
    largest instead of drawing would prefer the oddest samples.
    """
    points = F.normalize(features.double(), dim=-1)
    # A pool that the network is sure of, down to the last digit, is still to be drawn from.
    weight = uncertainty.double().clamp_min(1e-12)
    nearest = torch.full_like(weight, torch.inf)
    chance, drawn = weight, list[int]()
    for number in draws.random(min(n, len(weight))):
        reach = chance.cumsum(0)
        if reach[-1] <= 0:
            break
        latest = int(torch.searchsorted(reach, number * reach[-1], right=True))
        drawn.append(latest)
        nearest = torch.minimum(nearest, (points - points[latest]).square().sum(dim=-1))
        chance = weight * nearest
    return torch.tensor(drawn)
