"""Galleries: the samples with the highest scores, of all and of each class, with thumbnails."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import UNLABELLED, Source
from surelabel.models.prediction import Prediction
from surelabel.report.thumbnails import Thumbnail, thumbnails
from surelabel.utils.words import shortened

FIRST = 24  # shown until a class is chosen
CHARACTERS = 400  # shown of a text
OF_CLASS = 12  # shown for one class
MOST_BYTES = 600_000  # of thumbnails: two galleries keep the page below 2 MB
MOST = 240  # samples, with or without thumbnail


@dataclass(frozen=True)
class Item:
    """A sample of a gallery. Classes are numbers; `true` is None if unknown."""

    name: str
    true: int | None
    predicted: int
    confidence: float
    std: float | None  # of the confidence, for a Bayesian head
    picture: Thumbnail | None
    text: str | None
    first: bool  # shown until a class is chosen


Gallery = list[Item]


class TopPrediction(NamedTuple):
    """The most likely class of each sample [N], its probability [N] and, for a Bayesian head, the std of that [N]."""

    predicted: NDArray[np.int64]
    confidence: NDArray[np.floating]
    std: NDArray[np.floating] | None

    @classmethod
    def of(cls, prediction: Prediction) -> "TopPrediction":
        confidence, predicted = (part.numpy() for part in prediction.probs.max(-1))
        rows = np.arange(len(predicted))
        return cls(predicted, confidence, None if prediction.std is None else prediction.std.numpy()[rows, predicted])


def gallery(source: Source, index: NDArray[np.int64], best: TopPrediction, score: NDArray[np.floating]) -> Gallery:
    """The samples with the highest scores, in order; never those with a score of -inf. index [N], score [N]."""
    predicted, confidence, std = best
    true = source.labels[index]
    group = np.where(true == UNLABELLED, predicted, true)
    chosen = choose(score, group)
    names, texts = source.names(index[chosen]), source.texts(index[chosen])
    nothing = [None] * len(chosen)
    pictures = thumbnails(source.pictures(index[chosen])) if texts is None else nothing
    begun = nothing if texts is None else [shortened(text, CHARACTERS) for text in texts]
    shown: Gallery = []
    left = MOST_BYTES
    for name, row, picture, text in zip(names, chosen.tolist(), pictures, begun, strict=True):
        left -= len(picture.address) if picture else 0
        if left < 0 and len(shown) >= FIRST:
            break
        shown.append(
            Item(
                name=str(name),
                true=None if true[row] == UNLABELLED else int(true[row]),
                predicted=int(predicted[row]),
                confidence=float(confidence[row]),
                std=None if std is None else float(std[row]),
                picture=picture,
                text=text,
                first=len(shown) < FIRST,
            )
        )
    return shown


def choose(score: NDArray[np.floating], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `FIRST` highest scores, then the best of each group, the second best of each, and so on.

    score [N], group [N] -> at most `MOST` indices. Ties are in the order of the samples.
    """
    order = np.argsort(-score, kind="stable")
    order = order[np.isfinite(score[order])]
    first, rest = order[:FIRST], order[FIRST:]
    # The first count too: at most OF_CLASS of each group.
    rank = _rank_in_group(group[order])[FIRST:]
    turn = np.argsort(rank, kind="stable")
    turn = turn[rank[turn] < OF_CLASS]
    return np.concatenate([first, rest[turn]])[:MOST]


def _rank_in_group(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same group come before each. [n] -> [n]"""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty_like(group)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank
