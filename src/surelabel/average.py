"""Averaged copies of a network's weights."""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from surelabel.config import Average
from surelabel.schedules import ema_decay

Tensors = tuple[Tensor, ...] | list[Tensor]


def moving_average(network: nn.Module, settings: Average) -> AveragedModel:
    """An exponential moving average of the network: θ_g ← γ θ_g + (1 − γ) θ_f at each `update_parameters`.

    γ is a function of the number of updates so far, so that it may warm up. The first update copies.
    """

    @torch.no_grad()
    def average(averaged: Tensors, current: Tensors, _: Tensor | int) -> None:
        # Tensors come grouped by type. BatchNorm's count of batches, the one integer, has no average with a meaning.
        if averaged[0].is_floating_point():
            updates = int(made.n_averaged)  # on the CPU; the one passed in would make us wait for the device
            torch._foreach_lerp_(averaged, current, 1 - ema_decay(settings.decay, updates, settings.warm))
        else:
            torch._foreach_copy_(averaged, current)

    made = AveragedModel(network, multi_avg_fn=average, use_buffers=settings.buffers == "average")
    made.eval()
    return made.requires_grad_(False)
