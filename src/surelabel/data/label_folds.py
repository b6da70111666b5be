"""The folds of a source's labels, such that near-duplicates and what belongs together share one."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from surelabel.data.folds import ALWAYS_SEEN, draw_folds, near_duplicates, same_texts
from surelabel.data.groups import joined
from surelabel.data.source import Source, in_batches

SIDE = 32  # pixels that larger pictures are reduced to before they are compared
BATCH = 1024


def folds_of(source: Source, labelled: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.int64]:
    """The fold [n] of each label; near-duplicates and those of a group share one.

    Suggested labels, which judge nothing, are in one only where they share it with others.
    """
    groups = near_duplicates(_reduced(source, labelled))
    if (texts := source.texts(labelled)) is not None:
        groups = joined(groups, same_texts(texts))
    if source.groups is not None:
        groups = joined(groups, source.groups[labelled])
    fold = np.full(len(labelled), ALWAYS_SEEN)
    dealt = np.isin(groups, groups[source.at_random(labelled)])
    fold[dealt] = draw_folds(source.labels[labelled[dealt]], folds, seed, groups[dealt])
    return fold


def _reduced(source: Source, index: NDArray[np.int64]) -> NDArray[np.float32]:
    """These samples as rows [n, d], large pictures at a smaller size."""
    rows = []
    for samples in in_batches(source, index, BATCH):
        part = torch.from_numpy(samples).float()
        if part.ndim == 4 and max(part.shape[2:]) > SIDE:
            part = functional.interpolate(part, (SIDE, SIDE), mode="area")
        rows.append(part.flatten(1).numpy())
    return np.concatenate(rows)
