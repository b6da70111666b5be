"""Averaged copies of a network's weights: the rules, as values, and the copy that follows one."""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from surelabel.methods.schedules import ema_cosine, ema_decay, linear_warmup

Tensors = tuple[Tensor, ...] | list[Tensor]


class Rule(Protocol):
    """θ_g ← (1 − s) θ_g + s θ_f: the share s of the present weights at each update."""

    def __call__(self, updates: int) -> float:
        """The share s after so many updates."""


@dataclass(frozen=True)
class EMA:
    """An exponential moving average with a constant γ = `decay`; `warm` begins with a smaller one."""

    decay: float
    warm: bool = False

    def __call__(self, updates: int) -> float:
        return 1 - ema_decay(self.decay, updates, self.warm)


@dataclass(frozen=True)
class WarmupEMA:
    """An exponential moving average whose γ rises in a straight line from 0 to `gamma` and stays there (CIFAR)."""

    gamma: float
    warmup: int

    def __call__(self, updates: int) -> float:
        return 1 - linear_warmup(0, self.gamma, updates, self.warmup)


@dataclass(frozen=True)
class CosineEMA:
    """An exponential moving average whose γ rises from `gamma` to 1 as one minus a cosine (ImageNet, FixMatch)."""

    gamma: float
    steps: int

    def __call__(self, updates: int) -> float:
        return 1 - ema_cosine(self.gamma, updates, self.steps)


@dataclass(frozen=True)
class SWA:
    """Stochastic weight averaging: a copy for `onset` updates, then the mean of the weights since, all alike."""

    onset: int

    def __call__(self, updates: int) -> float:
        onset = max(1, self.onset)  # the first update copies in any case
        return 1.0 if updates < onset else 1 / (updates - onset + 2)


def averaged(network: nn.Module, rule: Rule, buffers: Literal["copy", "average"] = "copy") -> AveragedModel:
    """A copy of the network that follows it by the rule at each `update_parameters`. The first update copies."""

    @torch.no_grad()
    def update(mean: Tensors, current: Tensors, _: Tensor | int) -> None:
        # Tensors come grouped by type. BatchNorm's count of batches, the one integer, has no average with a meaning.
        if mean[0].is_floating_point():
            updates = int(made.n_averaged)  # on the CPU; the one passed in would make us wait for the device
            torch._foreach_lerp_(mean, current, rule(updates))
        else:
            torch._foreach_copy_(mean, current)

    made = AveragedModel(network, multi_avg_fn=update, use_buffers=buffers == "average")
    return made.requires_grad_(False)
