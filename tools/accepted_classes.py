"""`python tools/accepted_classes.py CIFAR_DIR`: of how many classes the pseudo-labels are that a run accepts first.

The runs of `surelabel study features` with 40 labels, up to a third of their length. For each stretch of steps: the
share of the pool's samples that was accepted, how many of these pseudo-labels were right, and of how many classes they
were in effect: the exponential of the entropy of their shares, 10 if all classes are accepted alike.
"""

import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import RunConfig
from surelabel.data.batch import Batch
from surelabel.methods.base import Losses
from surelabel.studies.catalogue import find
from surelabel.training import fit
from surelabel.training import loop as train
from surelabel.utils.signals import Stopped

STRETCHES = (0, 75, 150, 300, 600, 1000)
SEEDS = 3
CLASSES = 10


def main(data_dir: str) -> None:
    print("| method | steps | accepted | right | classes, in effect |\n|---|---|---|---|---|")
    for cell in find("features").cells("laptop"):
        run = cell.choices[0][1].config
        if str(run.labels) != "40" or run.method == "supervised":
            continue
        seeds = [accepted(replace(run, seed=seed, data_dir=data_dir)) for seed in range(SEEDS)]
        for number, (first, last) in enumerate(pairwise(STRETCHES)):
            figures = np.array([stretch_figures(counts[number]) for counts in seeds])  # [seeds, 3]
            share, right, classes = figures.mean(0)
            low, high = figures[:, 2].min(), figures[:, 2].max()
            row = f"{first + 1} to {last} | {share:.0%} | {right:.0%} | {classes:.1f} ({low:.1f} to {high:.1f})"
            print(f"| {cell.row} | {row} |", flush=True)


def accepted(run: RunConfig) -> NDArray[np.int64]:
    """Counts [stretches, pseudo-label, true class + 1], of which the place 0 is of what was not accepted."""
    counts = np.zeros((len(STRETCHES) - 1, CLASSES, CLASSES + 1), dtype=np.int64)
    training_step = train.training_step

    def watched(method: Any, model: Any, state: Any, batch: Batch, *more: Any) -> Losses:
        losses = training_step(method, model, state, batch, *more)
        stretch = int(np.searchsorted(STRETCHES, state.step)) - 1
        assert losses.prediction is not None
        assert losses.accepted is not None
        assert batch.hidden is not None
        kept = torch.where(losses.accepted.bool(), batch.hidden + 1, 0)
        np.add.at(counts[stretch], (losses.prediction.probs.argmax(1).numpy(), kept.numpy()), 1)
        if state.step == STRETCHES[-1]:
            raise Stopped(15)
        return losses

    train.training_step = watched
    try:
        with tempfile.TemporaryDirectory() as folder:
            fit.fit(replace(run, out=f"{folder}/run"), console=Console(quiet=True))
    except Stopped:
        pass
    finally:
        train.training_step = training_step
    return counts


def stretch_figures(counts: NDArray[np.int64]) -> tuple[float, float, float]:
    """The share that was accepted, how many of it were right, and of how many classes."""
    kept = counts[:, 1:]
    shares = kept.sum(1) / kept.sum()
    classes = np.exp(-sum(share * np.log(share) for share in shares if share))
    return kept.sum() / counts.sum(), np.trace(kept) / kept.sum(), float(classes)


if __name__ == "__main__":
    main(*sys.argv[1:])
