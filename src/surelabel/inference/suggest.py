"""Suggest which samples of a run's pool to label next: uncertain and diverse ones."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.label_rows import DRAWN_COLUMN, SUGGESTED
from surelabel.data.source import UNLABELLED, Source, in_batches
from surelabel.equations import entropy
from surelabel.inference.outputs import check_output
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.network import Network
from surelabel.utils.csv import write_csv
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from surelabel.utils.words import shortened

# Only the most uncertain samples are candidates, as the features of a large pool may not fit in memory.
CANDIDATES, LEAST = 50, 10_000  # per suggestion, and at least
CHARACTERS = 200  # of a text in the file


class NothingUnlabelled(UserError):
    """Every sample of a run's pool has a label."""


@dataclass(frozen=True)
class Suggestion:
    """A sample to label, and what the run predicts for it."""

    rank: int  # from 1, in the order of the draws
    index: int  # in the run's pool
    sample: str | int  # its file, or its number in the data
    predicted: str
    confidence: float
    entropy: float  # in nats
    confidence_std: float | None  # from a Bayesian head
    id: str | None = None  # in a table whose rows have one
    text: str | None = None  # the beginning of a sample that is one


def suggestions(run: TrainedRun, n: int) -> list[Suggestion]:
    """The n samples of a run's pool to label next, always the same; fewer if no more samples differ."""
    if n < 1:
        raise UserError(f"the number of suggestions must be at least 1, not {n}")
    source, pool, prediction = run.data.train, run.unlabelled, run.pool_prediction
    uncertainty = entropy(prediction.probs)
    # Stable, so that ties are in the order of the pool on any machine.
    likely = uncertainty.argsort(descending=True, stable=True)[: max(CANDIDATES * n, LEAST)]
    features = backbone_features(run.network, source, pool[likely.numpy()], run.config.evaluation.batch)
    chosen = likely[uncertain_and_diverse(features, uncertainty[likely], n, generator(0, "suggest"))]
    confidence, number = prediction.probs[chosen].max(dim=-1)
    stds = None if prediction.std is None else prediction.std[chosen].gather(-1, number[:, None])[:, 0].tolist()
    index = pool[chosen.numpy()]
    samples, texts = source.names(index), source.texts(index)
    return [
        Suggestion(
            rank=place + 1,
            index=int(index[place]),
            sample=samples[place],
            predicted=source.classes[number[place]],
            confidence=float(confidence[place]),
            entropy=float(uncertainty[chosen[place]]),
            confidence_std=None if stds is None else stds[place],
            id=None if source.ids is None else str(source.ids[index[place]]),
            text=None if texts is None else shortened(texts[place], CHARACTERS),
        )
        for place in range(len(chosen))
    ]


def suggest_to_csv(run: TrainedRun, n: int, out: Path) -> list[Suggestion]:
    """Write one line per suggestion; with the empty column `label` filled in, another run can use the file."""
    check_output(out, [run])
    found = suggestions(run, n)
    columns = [
        "rank",
        "sample",
        "id",
        "text",
        "label",
        DRAWN_COLUMN,
        "predicted",
        "confidence",
        "entropy",
        "confidence_std",
    ]
    filled = {"label": "", DRAWN_COLUMN: SUGGESTED}  # a suggestion has no label yet
    columns = [name for name in columns if name in filled or any(getattr(one, name) is not None for one in found)]
    rows = ([filled[name] if name in filled else getattr(one, name) for name in columns] for one in found)
    write_csv(out, columns, rows)
    return found


def unlabelled(source: Source, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples without a known class; all but the labelled ones if every class is known, as in a benchmark."""
    unknown = source.labels == UNLABELLED
    candidates = unknown if unknown.any() else np.ones(len(source), dtype=np.bool_)
    candidates[labelled] = False
    if not candidates.any():
        raise NothingUnlabelled("every sample of the run's pool is labelled: there is nothing to suggest")
    return np.flatnonzero(candidates)


@torch.no_grad()
def backbone_features(network: Network, source: Source, index: NDArray[np.int64], batch: int) -> Tensor:
    """What samples are compared by [N, D], on the CPU: the inputs of the head. The network must be in eval mode."""
    device = network.scale.device
    batches = in_batches(source, index, batch)
    return torch.cat([network.features(torch.from_numpy(samples).to(device)).cpu() for samples in batches])


def uncertain_and_diverse(features: Tensor, uncertainty: Tensor, n: int, draws: np.random.Generator) -> Tensor:
    """Draw n of N samples, one after the other. features [N, D], uncertainty [N] -> indices [n], or fewer.

    The probability of a sample is proportional to its uncertainty × the squared distance of its normalised features to
    the nearest sample drawn before, as k-means++ draws centres and BADGE (Ash et al., 2020, "Deep batch active learning
    by diverse, uncertain gradient lower bounds") a batch. A copy of a drawn sample is never drawn. Taking the maximum
    instead of drawing would prefer outliers.
    """
    points = F.normalize(features.double(), dim=-1)
    # Above zero, so that a pool of certain predictions can be drawn from.
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
