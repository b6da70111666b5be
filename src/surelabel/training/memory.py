"""A lower bound of the memory that a run takes, to refuse what cannot fit before any of it is taken."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from operator import attrgetter

import torch

from surelabel.config.encoders import ENCODERS
from surelabel.config.run import CUSTOM, RunConfig
from surelabel.config.validate import ignored_settings
from surelabel.data.batch import Task
from surelabel.training.build import build_network
from surelabel.utils.errors import UserError
from surelabel.utils.memory import available_memory

NUMBER = 4  # bytes, in float32
COPIES = 4  # of a network that is trained: weights, gradients, momentum, average
WORKING = 3  # tensors of one size at a time: what is drawn, what is computed from it, and a step between
PROCESS = 2**27  # bytes, of one that has imported torch


def check_settings(config: RunConfig) -> None:
    """Raise a `UserError` for settings that no data fit into memory with."""
    side = config.image_size or 1
    _check_fits(config, _of_settings(config, (3, side, side) if config.image_size else (1,), 2), _limit(config))


def check_memory(config: RunConfig, task: Task) -> None:
    """Raise a `UserError` for a run on these data that does not fit into memory."""
    limit = _limit(config)
    _check_fits(config, _of_settings(config, task.shape, len(task.classes)), limit)
    if config.network.name not in (CUSTOM, *ENCODERS):
        _check_fits(config, [(("network.name",), COPIES * NUMBER * _parameters(config, task))], limit)


def _parameters(config: RunConfig, task: Task) -> int:
    """How many numbers are trained."""
    try:
        with torch.device("meta"):  # shapes, without memory
            network = build_network(replace(config, precision="32"), task)
    except RuntimeError as error:  # what torch cannot count
        raise UserError(f"the network {config.network.name} is too large: {error}") from error
    return sum(tensor.numel() for tensor in network.parameters())


def _of_settings(config: RunConfig, shape: tuple[int, ...], classes: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Settings that the run reads, and the bytes that are taken with what they make together."""
    batch, paws = config.batch, config.paws
    sample, row = NUMBER * prod(shape), NUMBER * classes
    support = paws.per_class * min(paws.classes or classes, classes)
    sizes: dict[tuple[str, ...], int] = {
        ("image_size",): sample,
        ("devices",): PROCESS * config.devices,
        ("batch.labelled",): batch.labelled * sample,
        ("batch.labelled", "batch.ratio"): batch.labelled * batch.ratio * sample,
        ("head.samples",): config.head.samples * row,
        ("calibration.samples",): config.calibration.samples * row,
        ("calibration.members",): config.calibration.members * row,
        ("selection.window",): NUMBER * config.selection.window,
        ("align.queue",): (config.align.queue or 0) * row,
        ("paws.unlabelled",): paws.unlabelled * sample,
        ("paws.unlabelled", "paws.small_crops", "paws.small_size"): (
            NUMBER * paws.unlabelled * paws.small_crops * (paws.small_size or 1) ** 2
        ),
        ("paws.per_class", "paws.support_views"): paws.support_views * support * sample,
    }
    ignored = ignored_settings(config)
    return ((keys, WORKING * size) for keys, size in sizes.items() if not ignored & {*keys})


def _check_fits(config: RunConfig, sizes: Iterable[tuple[tuple[str, ...], int]], limit: int | None) -> None:
    for keys, size in sizes:
        if limit is not None and size > limit:
            values = " and ".join(f"{key} {attrgetter(key)(config)}" for key in keys)
            raise UserError(
                f"{values} would take {size / 2**30:,.0f} GiB of memory or more, and there are "
                f"{limit / 2**30:,.1f}: choose less"
            )


def _limit(config: RunConfig) -> int | None:
    """The bytes of the device that tensors lie on."""
    if config.device == "cuda" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[1])
    return available_memory()
