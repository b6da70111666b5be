"""Averages of a network's weights: EMA and SWA."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from surelabel.methods.schedules import ema_cosine, ema_decay, linear_warmup

Tensors = tuple[Tensor, ...] | list[Tensor]
# θ_g ← (1 − s) θ_g + s θ_f: the share s of the current weights, given the number of updates before this one.
Rule = Callable[[int], float]


@dataclass(frozen=True)
class EMA:
    """An exponential moving average with constant γ = `decay`; `warm` starts with a smaller one."""

    decay: float
    warm: bool = False

    def __call__(self, updates: int) -> float:
        return 1 - ema_decay(self.decay, updates, self.warm)


@dataclass(frozen=True)
class WarmupEMA:
    """An exponential moving average whose γ rises linearly from 0 to `gamma` over `warmup` updates (CIFAR)."""

    gamma: float
    warmup: int

    def __call__(self, updates: int) -> float:
        return 1 - linear_warmup(0, self.gamma, updates, self.warmup)


@dataclass(frozen=True)
class CosineEMA:
    """An exponential moving average whose γ rises from `gamma` to 1 along a cosine (ImageNet, FixMatch)."""

    gamma: float
    steps: int

    def __call__(self, updates: int) -> float:
        return 1 - ema_cosine(self.gamma, updates, self.steps)


@dataclass(frozen=True)
class SWA:
    """Stochastic weight averaging: a copy for `onset` updates, then the mean of the weights since."""

    onset: int

    def __call__(self, updates: int) -> float:
        onset = max(1, self.onset)  # the first update always copies
        return 1.0 if updates < onset else 1 / (updates - onset + 2)


def averaged(network: nn.Module, rule: Rule, buffers: Literal["copy", "average"] = "copy") -> AveragedModel:
    """An average of the network, updated by `update_parameters`; the first update copies."""

    @torch.no_grad()
    def update(mean: Tensors, current: Tensors, _: Tensor | int) -> None:
        # Tensors are grouped by dtype. The one integer, BatchNorm's count of batches, is copied.
        if mean[0].is_floating_point():
            # This n_averaged is on the CPU; reading the one passed in would wait for the device.
            torch._foreach_lerp_(mean, current, rule(int(made.n_averaged)))
        else:
            torch._foreach_copy_(mean, current)

    made = AveragedModel(network, multi_avg_fn=update, use_buffers=buffers == "average")
    return made.requires_grad_(False)
