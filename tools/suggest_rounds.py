"""One labelling round, simulated: train on few labels, label more of the pool, train again.

The samples to label are those of `surelabel suggest`, or random ones, or those of the largest entropy.

    python tools/suggest_rounds.py --method supervised --labels 20 --more 20 --seeds 10

On scikit-learn's digits: 1,400 of them are the pool, 397 the test set. The networks of a seed begin with the same
weights.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_digits

from surelabel.config.run import Average, Batch, Evaluation, Network, RunConfig
from surelabel.equations import entropy
from surelabel.inference.trained_run import TrainedRun, fit
from surelabel.training import build_data
from surelabel.training.run_folder import RunFolder
from surelabel.utils.rng import generator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="supervised")
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--more", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(options.seeds):
            run = digits_run(Path(place), options.method, options.labels, options.steps, seed)
            rows.append(one_round(run, options.more))
            print(
                f"seed {seed}: " + "  ".join(f"{how} {accuracy:.1%}" for how, accuracy in rows[-1].items()), flush=True
            )
    random = np.array([row["random"] for row in rows])
    for how in rows[0]:
        accuracies = np.array([row[how] for row in rows])
        above = accuracies - random
        error = above.std(ddof=1) / len(rows) ** 0.5
        print(f"{how:10} {accuracies.mean():.1%}   above random {above.mean():+.1%} ± {error:.1%}")


def digits_run(place: Path, method: str, labels: int, steps: int, seed: int) -> RunConfig:
    images, classes = load_digits(return_X_y=True)
    images = (images * 15.9).astype(np.uint8).reshape(-1, 1, 8, 8)
    file = place / "digits.npz"
    np.savez(file, images=images[:1400], labels=classes[:1400], test_images=images[1400:], test_labels=classes[1400:])
    return RunConfig(
        method=method, data=str(file), labels=labels, steps=steps, seed=seed, out=str(place / f"first-{seed}"),
        threads=1, device="cpu", batch=Batch(16, 2), network=Network("wrn-10-1", norm_momentum=0.1),
        average=Average(0.99, warm=True, buffers="average"), evaluation=Evaluation(every=steps),
    )  # fmt: skip


def one_round(config: RunConfig, more: int) -> dict[str, float]:
    """The test accuracy before, and after as many more labels chosen in each way."""
    run = fit(config, console=Console(quiet=True))
    pool, uncertainty = run.unlabelled, entropy(run.pool_prediction.probs)
    chosen = {
        "suggested": np.array([one.index for one in run.suggest(more)]),
        "random": generator(config.seed, "random labels").choice(pool, more, replace=False),
        "entropy": pool[torch.topk(uncertainty, more).indices.numpy()],
    }
    return {"before": accuracy(run)} | {how: accuracy(again(run, more, how)) for how, more in chosen.items()}


def again(first: TrainedRun, more: NDArray[np.int64], how: str) -> TrainedRun:
    """A run like the first with these labels as well."""
    config, data = first.config, first.data
    labels = RunFolder(f"{config.out}-{how}-labels")
    labels.create(config, first.task, build_data.fingerprint(data), np.concatenate([first.labelled, more]))
    return fit(replace(config, out=f"{config.out}-{how}"), console=Console(quiet=True), labels_of=labels.path)


def accuracy(run: TrainedRun) -> float:
    return float(run.metrics["averaged"]["accuracy"])


if __name__ == "__main__":
    main()
