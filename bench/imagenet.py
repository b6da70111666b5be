"""What a step of the ImageNet-10 % recipe takes on each of 64 GPUs: counted here on one image of each size.

Operations by torch's own counter; memory by what autograd keeps for the backward pass, under bfloat16 autocast.
"""

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bench.timing import Row
from surelabel.config.recipes import recipe
from surelabel.data.batch import Task
from surelabel.training import build

GPUS = 64


def run() -> list[Row]:
    settings = recipe("paws+ema", "imagenet", "10%", "paper")
    paws = settings.paws
    assert paws.classes is not None
    assert paws.small_size is not None
    task = Task((3, 224, 224), tuple(map(str, range(1000))), "uint8", (0.0,) * 3, (1.0,) * 3)
    network = build.build_network(settings, task).train()
    support = paws.classes * paws.per_class * paws.support_views
    large = (2 * paws.unlabelled + support) / GPUS
    small = paws.small_crops * paws.unlabelled / GPUS
    (large_work, large_kept), (small_work, small_kept) = (_one(network, side) for side in (224, paws.small_size))
    forward = large * large_work + small * small_work
    parameters = sum(parameter.numel() for parameter in network.parameters())
    fixed = 4 * 4 * parameters  # four times, in float32
    gathered = 2 * 4 * support * paws.width  # in float32, before and after the prediction head
    return [
        Row("views at 224 pixels for each GPU", large, "images"),
        Row(f"views at {paws.small_size} pixels for each GPU", small, "images"),
        Row("forward pass at 224 pixels", large_work / 1e9, "GFLOP an image"),
        Row(f"forward pass at {paws.small_size} pixels", small_work / 1e9, "GFLOP an image"),
        Row("a step: forward, backward (twice that), teacher", (3 * forward + large * large_work) / 1e12, "TFLOP"),
        Row("kept for the backward pass", (large * large_kept + small * small_kept) / 2**30, "GiB"),
        Row("weights, gradients, momentum, teacher", fixed / 2**30, "GiB"),
        Row("gradients to average in a step", 4 * parameters / 2**20, "MiB"),
        Row("support representations to gather in a step", gathered / 2**20, "MiB"),
        Row("steps", float(settings.steps), ""),
    ]


def _one(network: torch.nn.Module, side: int) -> tuple[float, float]:
    """Operations of a forward pass and bytes kept of it for one image more, without what all images share."""
    found = [_counted(network, side, count) for count in (2, 4)]
    work, kept = ((more - fewer) / 2 for fewer, more in zip(*found, strict=True))
    return work, kept


def _counted(network: torch.nn.Module, side: int, count: int) -> tuple[float, float]:
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    images = torch.zeros(count, 3, side, side, dtype=torch.uint8)
    counter = FlopCounterMode(display=False)
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with counter, hooks, torch.autocast("cpu", dtype=torch.bfloat16):
        network(images)
    return float(counter.get_total_flops()), float(sum(kept.values()))
