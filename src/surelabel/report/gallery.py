"""Which samples a gallery shows: the foremost of all, and of each class, with a picture of each."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import UNLABELLED, Source
from surelabel.models.prediction import Prediction
from surelabel.report.thumbnails import Thumbnail, thumbnails

FIRST = 24  # shown before a class is chosen
OF_CLASS = 12  # shown of a class that is chosen
MOST_BYTES = 600_000  # of pictures: two galleries keep the page below 2 MB
MOST = 240  # samples, with or without a picture


@dataclass(frozen=True)
class Item:
    """A sample of a gallery. Classes are numbers; `true` is None where it is not known."""

    name: str
    true: int | None
    predicted: int
    confidence: float
    std: float | None  # of the confidence, by a Bayesian head
    picture: Thumbnail | None
    first: bool  # one of the foremost of all


Gallery = list[Item]


class TopPrediction(NamedTuple):
    """The likeliest class of each sample [N], its probability [N] and, by a Bayesian head, how much that varies [N]."""

    predicted: NDArray[np.int64]
    confidence: NDArray[np.floating]
    std: NDArray[np.floating] | None

    @classmethod
    def of(cls, prediction: Prediction) -> "TopPrediction":
        confidence, predicted = (part.numpy() for part in prediction.probs.max(-1))
        rows = np.arange(len(predicted))
        return cls(predicted, confidence, None if prediction.std is None else prediction.std.numpy()[rows, predicted])


def gallery(source: Source, index: NDArray[np.int64], best: TopPrediction, score: NDArray[np.floating]) -> Gallery:
    """The samples with the highest scores, first those; samples that score minus infinity are never shown.

    index [N] of the source, score [N].
    """
    predicted, confidence, std = best
    true = source.labels[index]
    group = np.where(true == UNLABELLED, predicted, true)
    chosen = choose(score, group)
    names = source.names(index[chosen])
    shown: Gallery = []
    room = MOST_BYTES
    for name, row, picture in zip(names, chosen.tolist(), thumbnails(source.pictures(index[chosen])), strict=False):
        room -= len(picture.address) if picture else 0
        if room < 0 and len(shown) >= FIRST:
            break
        shown.append(
            Item(
                name=str(name),
                true=None if true[row] == UNLABELLED else int(true[row]),
                predicted=int(predicted[row]),
                confidence=float(confidence[row]),
                std=None if std is None else float(std[row]),
                picture=picture,
                first=len(shown) < FIRST,
            )
        )
    return shown


def choose(score: NDArray[np.floating], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `FIRST` highest scores, then the highest of each group, in turns: all groups' first, all their second, ...

    score [N], group [N] -> at most `MOST` places [n] in 0..N-1. Of equal scores the earlier sample comes first.
    """
    order = np.argsort(-score, kind="stable")
    order = order[np.isfinite(score[order])]
    first, rest = order[:FIRST], order[FIRST:]
    # Those already shown count: of each group, OF_CLASS in all.
    place = _place_in_group(group[order])[FIRST:]
    turn = np.argsort(place, kind="stable")
    turn = turn[place[turn] < OF_CLASS]
    return np.concatenate([first, rest[turn]])[:MOST]


def _place_in_group(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same group come before each. [n] -> [n]"""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
    lengths = np.diff(np.r_[starts, len(order)])
    place = np.empty(len(group), dtype=np.int64)
    place[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return place
