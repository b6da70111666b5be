"""`python tools/norms_of_average.py RUN ...`: what BatchNorm's statistics in an averaged network are best taken from.

For each run, the averaged weights are evaluated with the running statistics of the network (copied), with their own
average, and recomputed by passing some thousand images of the pool through the averaged network. Runs must have been
made with `average.buffers average`, which keeps the averaged ones.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn

from surelabel.config.methods import find
from surelabel.data.open import open_data
from surelabel.data.source import Source
from surelabel.inference.trained_run import load
from surelabel.training import evaluate
from surelabel.training.run_folder import RAW, RunFolder

IMAGES, BATCH = 6400, 128


def main(folders: list[str]) -> None:
    print("| run | copied | averaged | recomputed |\n|---|---|---|---|")
    for folder in map(RunFolder, folders):
        run = folder.config
        if run.average.buffers != "average":
            print(f"{folder.path} holds no averaged statistics", file=sys.stderr)
            continue
        data = open_data(run.data, run.data_dir)
        assert data.test is not None
        cells = []
        for how in ("copied", "averaged", "recomputed"):
            network = load(folder.path).network
            if how == "copied":
                raw = folder.weights(RAW)
                statistics = {name: tensor for name, tensor in raw.items() if "running_" in name}
                network.load_state_dict(folder.weights() | statistics)
            if how == "recomputed":
                update_bn(pool(data.train, run.seed), network)
                network.eval()
            find(run.method).before_evaluation(network, data.train, folder.labelled(), BATCH)
            found = evaluate.figures(network, data.test, evaluate.known(data.test), BATCH)
            cells.append(f"{found['accuracy']:.1%} / {found['ece']:.3f}")
        print(f"| {Path(folder.path).name} | {' | '.join(cells)} |", flush=True)


def pool(source: Source, seed: int) -> Iterator[Tensor]:
    """Some images of the pool, in batches."""
    index = np.random.default_rng(seed).permutation(len(source))[:IMAGES]
    for part in np.array_split(index, max(1, len(index) // BATCH)):
        yield torch.from_numpy(source.samples(part))


if __name__ == "__main__":
    main(sys.argv[1:])
