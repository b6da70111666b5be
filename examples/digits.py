"""Handwritten digits from a few labels: surelabel beside scikit-learn's two semi-supervised classifiers.

The test part is fixed; each seed draws other labels from the rest, equally many of each digit.

    python examples/digits.py                # some minutes: 5 seeds, 20, 50 and 100 labels
    python examples/digits.py --seeds 1 --labels 50
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from surelabel import SureLabelClassifier

DIGITS = load_digits()
POOL, TEST = train_test_split(np.arange(len(DIGITS.target)), test_size=540, stratify=DIGITS.target, random_state=0)

# Name -> the digits as they are given, and a classifier for a seed. scikit-learn's are the best of some settings that
# were tried on parts of the pool, as surelabel's defaults were; the test part was not looked at.
MODELS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "SelfTrainingClassifier(SVC)": (DIGITS.data, lambda seed: SelfTrainingClassifier(SVC(probability=True))),
    "LabelSpreading": (DIGITS.data / 16, lambda seed: LabelSpreading(gamma=20)),
    "SureLabelClassifier, table": (DIGITS.data, lambda seed: SureLabelClassifier(random_state=seed)),
    "SureLabelClassifier, images": (DIGITS.images, lambda seed: SureLabelClassifier(random_state=seed)),
}


def labels_of(seed: int, count: int) -> np.ndarray:
    """The pool's labels, -1 for all but `count` of them."""
    random = np.random.default_rng(seed)
    labels = np.full(len(POOL), -1)
    for digit in range(10):
        chosen = random.permutation(np.flatnonzero(DIGITS.target[POOL] == digit))[: count // 10]
        labels[chosen] = digit
    return labels


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--labels", type=int, nargs="+", default=[20, 50, 100], help="multiples of ten")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    asked = options.parse_args()
    print(f"accuracy on {len(TEST)} digits, mean ± standard error over {asked.seeds} draws of the labels")
    print(f"{'':28}" + "".join(f"{count:>8} labels" for count in asked.labels))
    for name in asked.models:
        X, make = MODELS[name]
        cells = []
        for count in asked.labels:
            models = [make(seed).fit(X[POOL], labels_of(seed, count)) for seed in range(asked.seeds)]
            scores = 100 * np.array([model.score(X[TEST], DIGITS.target[TEST]) for model in models])
            error = scores.std(ddof=1) / len(scores) ** 0.5 if len(scores) > 1 else float("nan")
            cells.append(f"{scores.mean():8.1f} ± {error:.1f}")
        print(f"{name:28}" + " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
