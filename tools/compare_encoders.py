"""How well a linear classifier on each encoder's features does with few labels: 5,000 training pictures a set.

    python tools/compare_encoders.py CIFAR_DIR [FOLDER]

The sets are CIFAR-10, Fashion-MNIST and, where given, a folder of photographs with a sub-folder for each class.
Prints mean accuracy ± standard error over 20 draws of labels, and seconds for 1,000 pictures.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from surelabel.config.encoders import ENCODERS
from surelabel.data.images.resized import Resized
from surelabel.data.open import open_data
from surelabel.data.source import Source, Subset
from surelabel.models.encoders import open_encoder
from surelabel.models.encoders.efficientnet import SCALING
from surelabel.models.frozen_features import encoded
from surelabel.utils.rng import generator

PICTURES, DRAWS = 5000, 20


def sets(cifar: str, folder: str | None, side: int) -> dict[str, Source]:
    """The training pictures at this size."""
    found: dict[str, Source] = {
        "CIFAR-10": Resized(open_data("cifar10", cifar).train, side),
        "Fashion-MNIST": Resized(open_data("fashion-mnist").train, side),
    }
    if folder is not None:
        found[Path(folder).name] = open_data(folder, image_size=side, scaling=SCALING).train
        found[f"{Path(folder).name}, not cropped"] = open_data(folder, image_size=side).train
    return {
        name: Subset(source, np.sort(generator(5, "encoders").permutation(len(source))[:PICTURES]))
        for name, source in found.items()
    }


def accuracies(features: np.ndarray, classes: np.ndarray, each: int) -> list[float]:
    """On the other samples, with so many labels of each class that has more."""
    rows = StandardScaler().fit_transform(features)
    names = [k for k in np.unique(classes) if (classes == k).sum() > each]
    found = []
    for draw in range(DRAWS):
        random = generator(draw, "labels")
        labelled = np.concatenate([random.permutation(np.flatnonzero(classes == k))[:each] for k in names])
        rest = np.setdiff1d(np.flatnonzero(np.isin(classes, names)), labelled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=0.01, max_iter=300, tol=1e-3).fit(rows[labelled], classes[labelled])
        found.append(float((model.predict(rows[rest]) == classes[rest]).mean()))
    return found


def main(cifar: str, folder: str | None = None) -> None:
    print("| encoder | pictures | 3 labels a class | 10 labels a class | s for 1,000 |\n|---|---|---|---|---|")
    for name, side in ENCODERS.items():
        for title, source in sets(cifar, folder, side).items():
            start = time.perf_counter()
            features = encoded(source, open_encoder(name)).features
            seconds = 1000 * (time.perf_counter() - start) / len(source)
            shown = []
            for each in (3, 10):
                found = 100 * np.array(accuracies(features, source.labels, each))
                shown.append(f"{found.mean():.1f} ± {found.std(ddof=1) / DRAWS**0.5:.1f} %")
            print(f"| {name} | {title} | {' | '.join(shown)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
