"""A network and views of one's own: classify signals in time from six labels. One to three minutes on a CPU.

The signals are cylinder, bell and funnel (Saito, 1994): a plateau, a rising or a falling ramp between two random times,
of random height, in noise of deviation one.

    python examples/own_network.py
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from surelabel import fit, recipe
from surelabel.config.run import Batch, Evaluation
from surelabel.data.arrays.source import SampleSource, user_data_set
from surelabel.training.components import Components

CLASSES = ("cylinder", "bell", "funnel")
LENGTH = 128


def signals(count: int, seed: int) -> SampleSource:
    """So many signals [count, 1, LENGTH] of each class in turn."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(CLASSES)
    start, length = random.integers(16, 33, (count, 1)), random.integers(32, 97, (count, 1))
    ramp = (np.arange(LENGTH) - start) / length
    shape = np.select([labels[:, None] == 0, labels[:, None] == 1], [np.ones_like(ramp), ramp], 1 - ramp)
    height = 6 + random.standard_normal((count, 1))
    clean = np.where((ramp >= 0) & (ramp <= 1), height * shape, 0)
    noisy = clean + random.standard_normal((count, LENGTH))
    return SampleSource(noisy[:, None].astype(np.float32), labels, CLASSES)


def convolutions(shape: tuple[int, ...]) -> nn.Module:
    """Signals [N, channels, time] -> features [N, 64]."""
    layers: list[nn.Module] = []
    inputs = shape[0]
    for outputs in (16, 32, 64):
        layers += [nn.Conv1d(inputs, outputs, 9, stride=2, padding=4), nn.BatchNorm1d(outputs), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())


@dataclass(frozen=True)
class Shift:
    """Move a signal by up to `most` places, with its end coming back at its beginning."""

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


def main() -> None:
    components = Components(
        data=user_data_set("signals", signals(1500, seed=1), signals(1500, seed=2)),
        backbone=convolutions,
        views={"labelled": Shift(4), "weak": Shift(4), "strong": Distort()},
    )
    print("accuracy on 1500 signals, from 6 labels and 1500 signals without")
    for method in ("supervised", "fixmatch"):
        accuracies = []
        for seed in range(3):
            config = replace(recipe(method, "custom", 6), seed=seed, steps=100, batch=Batch(8, 7))
            config = replace(config, evaluation=Evaluation(every=config.steps))
            run = fit(config, console=Console(quiet=True), components=components, save=False)
            accuracies.append(run.metrics["averaged"]["accuracy"])
        error = np.std(accuracies, ddof=1) / len(accuracies) ** 0.5
        print(
            f"{method:12} {np.mean(accuracies):.1%} ± {error:.1%} (standard error over {len(accuracies)} draws)",
            flush=True,
        )


if __name__ == "__main__":
    main()
